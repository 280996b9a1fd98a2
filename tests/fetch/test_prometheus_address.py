"""prometheus+http:// against a real Prometheus that scrapes a real exporter, and against servers that misbehave."""

from __future__ import annotations

import base64
import json
import re
import tempfile
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.fetch import brought, is_address, source_of
from whyidle.fetch.base import shown
from whyidle.fetch.http import Server
from whyidle.fetch.moments import duration, moment, seconds
from whyidle.fetch.prometheus import Prometheus, matchers
from whyidle.read import load

LINE = re.compile(r"(\w+)\{(.*)\} (\S+) (\d+)")


def fetched(address, tmp_path, progress=None):
    (path,) = Prometheus().fetch(address, tmp_path, progress)
    text = path.read_text("utf-8")
    return [LINE.fullmatch(line).groups() for line in text.splitlines() if not line.startswith("#")]


def test_what_a_real_prometheus_scraped(prometheus, tmp_path):
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    labels = ["gpu", "UUID", "modelName", "Hostname", "pci_bus_id"]
    busy = client.Gauge("DCGM_FI_DEV_GPU_UTIL", "Percent.", labels, registry=registry)
    tensor = client.Gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Share.", labels, registry=registry)
    client.Gauge("DCGM_FI_DEV_SOMETHING_ELSE", "No.", registry=registry).set(1)
    for gpu in ("0", "1"):
        about = (gpu, f"GPU-{gpu}", 'NVIDIA "A100"', "n1", "00:0")
        busy.labels(*about).set(90 + int(gpu))
        tensor.labels(*about).set(0.25)
    busy.labels("0", "GPU-x", "NVIDIA A100", "n2", "00:0").set(3)
    server, thread = client.start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with prometheus(server.server_port) as host:
            told = []
            rows = until_there(f'prometheus+http://{host}/?match={{Hostname="n1"}}', tmp_path, 6, told)
            assert {(name, value) for name, _, value, _ in rows} == {
                ("DCGM_FI_DEV_GPU_UTIL", "90"),
                ("DCGM_FI_DEV_GPU_UTIL", "91"),
                ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.25"),
            }
            assert {labels for _, labels, _, _ in rows} == {
                rf'Hostname="n1",UUID="GPU-{gpu}",gpu="{gpu}",modelName="NVIDIA \"A100\""' for gpu in (0, 1)
            }
            of_one = [int(row[3]) for row in rows if row[:3:2] == ("DCGM_FI_DEV_GPU_UTIL", "90")]
            assert all(earlier < later for earlier, later in pairwise(of_one)), "as they were scraped, none twice"
            assert told[-1][0] == host
            (tmp_path / "prometheus.prom").unlink()
            means = fetched(f"prometheus+http://{host}/?step=2s&start=-10s&match=Hostname%3D%22n2%22", tmp_path)
            assert {(name, value) for name, _, value, _ in means} == {("DCGM_FI_DEV_GPU_UTIL", "3")}
            assert {int(row[3]) % 2000 for row in means} == {int(means[0][3]) % 2000}
            with pytest.raises(WhyIdleError, match=r'no metrics .* with \{Hostname="n3"\} from'):
                fetched(f'prometheus+http://{host}/?match={{Hostname="n3"}}', tmp_path / "..")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def until_there(address, tmp_path, least, told):
    """Fetch until every GPU has so many samples."""
    until = time.monotonic() + 60
    while True:
        try:
            rows = fetched(address, tmp_path, lambda path, done, total: told.append((str(path), done, total)))
        except WhyIdleError:
            rows = []
        if len(rows) >= 4 * least or time.monotonic() > until:
            return rows
        (tmp_path / "prometheus.prom").unlink(missing_ok=True)
        time.sleep(0.3)


class Played:
    """A Prometheus that has one sample a second of each GPU, as far back as anyone asks, and little patience."""

    def __init__(self, gpus=2, most=10**9, first="DCGM_FI_DEV_GPU_UTIL"):
        self.gpus, self.most, self.name = gpus, most, first
        self.asked = []

    def __call__(self, handler):
        url = urlsplit(handler.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append((url.path, asked, handler.headers))
        if url.path.endswith("/__name__/values"):
            return success([self.name, "DCGM_FI_DEV_UNHEARD_OF"])
        if url.path.endswith("/query"):
            span = int(re.search(r"\[(\d+)ms\]", asked["query"])[1]) / 1000
            end, step = float(asked["time"]), 1.0
            start = end - span
        else:
            start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
        first = start if step > 1 else -(-start // 1)
        times = [first + at * step for at in range(int((end - first) / step) + 1)]
        if len(times) * self.gpus > self.most:
            said = {"status": "error", "error": "query processing would load too many samples into memory"}
            return 422, json.dumps(said).encode(), {}
        if step > 1 and len(times) > 11_000:
            said = {"status": "error", "error": "exceeded maximum resolution of 11,000 points per timeseries"}
            return 400, json.dumps(said).encode(), {}
        return success(
            {
                "resultType": "matrix",
                "result": [
                    {"metric": {"gpu": str(gpu)}, "values": [[when, str(when % 100)] for when in times]}
                    for gpu in range(self.gpus)
                ],
            }
        )


def success(data):
    return 200, json.dumps({"status": "success", "data": data}).encode(), {}


@contextmanager
def serving(answer):
    """Serve what `answer` makes of each request: (code, body, headers)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            told = answer(self)
            if told is None:
                return
            code, body, headers = told
            self.send_response(code)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with_patience(self, body)

        def log_message(self, *_):
            pass

    def with_patience(handler, body):
        try:
            handler.wfile.write(body)
        except OSError:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("most", [10**9, 5000, 100], ids=["all at once", "in pieces", "in small pieces"])
def test_every_sample_comes_once_however_much_an_answer_may_hold(tmp_path, most):
    with serving(Played(most=most)) as host:
        rows = fetched(f"prometheus+http://{host}/?start=1748779200&end=1748780000.5", tmp_path)
    for gpu in ("0", "1"):
        times = [int(at) for _, labels, _, at in rows if labels == f'gpu="{gpu}"']
        assert times == [1000 * at for at in range(1748779200, 1748780001)]


def test_an_answer_never_has_more_points_than_prometheus_gives(tmp_path):
    played = Played(gpus=1)
    with serving(played) as host:
        rows = fetched(f"prometheus+http://{host}/?start=1748000000&end=1748050000&step=2s", tmp_path)
    assert [int(row[3]) for row in rows] == [1000 * at for at in range(1748000000, 1748050001, 2)]
    queries = [asked["query"] for path, asked, _ in played.asked if path.endswith("query_range")]
    assert len(queries) == 3
    assert set(queries) == {"avg_over_time(DCGM_FI_DEV_GPU_UTIL{}[2s])"}


def test_bits_and_counters_have_no_mean(tmp_path):
    played = Played(first="DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
    with serving(played) as host:
        fetched(f"prometheus+http://{host}/?step=1m", tmp_path)
    assert played.asked[-1][1]["query"] == "last_over_time(DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{}[1m])"


def test_more_than_a_file_takes_names_a_step_that_fits(tmp_path, monkeypatch):
    monkeypatch.setattr("whyidle.fetch.exposition.LARGEST_FILE", 100_000)
    with serving(Played()) as host:
        with pytest.raises(WhyIdleError, match="more than 0 MiB of samples") as error:
            fetched(f"prometheus+http://{host}/?start=1748700000&end=1748786400", tmp_path)
        step = re.search(r"step=(\S+)", error.value.hint)[1]
        (tmp_path / "prometheus.prom").unlink()
        rows = fetched(f"prometheus+http://{host}/?start=1748700000&end=1748786400&step={step}", tmp_path)
    assert len(rows) > 200


def test_what_is_written_is_read_as_curves():
    pytest.importorskip("whyidle.read.prometheus_text", reason="nothing reads Prometheus' text yet")
    with serving(Played()) as host:
        address = f"prometheus+http://{host}/?start=1748779200&end=1748779299"
        with brought(address) as here:
            (curve,) = here.named(load(here.paths)).curves
    assert (curve.path, curve.clock, curve.warnings) == (address, "wall", ())
    assert [(one.name, one.subject, len(one.time)) for one in curve.series] == [
        ("utilization_percent", f"gpu {gpu}", 100) for gpu in (0, 1)
    ]
    assert [one.time[0] for one in curve.series] == [1748779200 * 10**9] * 2


def test_a_prefix_and_a_password_that_nobody_sees(tmp_path):
    played = Played()
    with serving(played) as host:
        address = f"prometheus+http://me:p%40ss@{host}/prom/?start=-1m"
        with brought([address]) as here:
            (path,) = here.paths
            assert here.said(f"{path}: wrong") == f"prometheus+http://{host}/prom/?start=-1m: wrong"
            assert "p%40ss" not in path.read_text("utf-8")
        assert not path.exists()
    path, _, headers = played.asked[0]
    assert path.startswith("/prom/api/v1/")
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()


def test_netrc_speaks_of_the_host_that_it_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine metrics login me password secret\ndefault login all password everywhere\n", "utf-8")
    netrc.chmod(0o600)
    assert Server.of("http://metrics:9090/").authorization == "Basic " + base64.b64encode(b"me:secret").decode()
    assert Server.of("http://other:9090/").authorization == ""
    netrc.write_text("nonsense", "utf-8")
    assert Server.of("http://metrics:9090/").authorization == ""


def always(code, body, headers=None):
    return lambda handler: (code, body, headers or {})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (always(200, b"<!doctype html><title>Sign in</title>"), "does not answer as Prometheus does: it is a web page"),
        (always(200, b""), "it says nothing"),
        (always(200, b"hello"), "it is no JSON"),
        (always(200, b"\xff\xfe"), "it is no JSON"),
        (always(200, b"[1]"), "its JSON is cut short, or of another kind"),
        (always(200, b'{"status": "success", "data": {"a": 1}}'), "of another kind"),
        (always(200, b'{"status": "success"}'), "of another kind"),
        (always(200, b'{"status": "success", "da'), "cut short"),
        (always(200, b'{"status": "error", "error": "no"}'), "does not answer as Prometheus does: no"),
        (always(404, b"not found"), "answers 404 Not Found"),
        (always(500, b"<html>"), "answers 500 Internal Server Error"),
        (always(503, b'{"status": "error", "error": "starting"}'), "answers 503 Service Unavailable: starting"),
        (always(401, b""), "answers 401 Unauthorized"),
        (always(302, b"", {"Location": "http://u:p@elsewhere/login"}), "it sends us to http://elsewhere/login"),
        (always(200, b'{"status":', {"Content-Length": "1000"}), "cut short"),
        (success, "of another kind"),
    ],
)
def test_a_server_that_is_no_prometheus(tmp_path, answer, said):
    told = always(*success({"resultType": "vector"})) if answer is success else answer
    with serving(told) as host, pytest.raises(WhyIdleError) as error:
        fetched(f"prometheus+http://u:p@{host}/", tmp_path)
    assert said in error.value.message
    assert "u:p" not in error.value.message + error.value.hint


def test_an_answer_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("whyidle.fetch.http.LARGEST", 1 << 20)
    with serving(always(200, b" " * (3 << 20))) as host, pytest.raises(WhyIdleError, match="more than 1 MiB at once"):
        fetched(f"prometheus+http://{host}/", tmp_path)


def test_a_server_that_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Server, "of", classmethod(lambda cls, url: cls(url, connect_s=0.2)))
    done = threading.Event()
    with serving(lambda handler: done.wait(5) and None) as host:
        with pytest.raises(WhyIdleError, match=r"does not answer within 0\.2 s"):
            fetched(f"prometheus+http://{host}/", tmp_path)
        done.set()


def test_a_server_that_drips(tmp_path, monkeypatch):
    monkeypatch.setattr(Server, "of", classmethod(lambda cls, url: cls(url, whole_s=0.2)))
    monkeypatch.setattr("whyidle.fetch.http.PIECE", 1)

    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(50):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return
            time.sleep(0.02)

    with serving(drip) as host, pytest.raises(WhyIdleError, match="is not done"):
        fetched(f"prometheus+http://{host}/", tmp_path)


def test_a_server_that_speaks_something_else(tmp_path):
    def shout(handler):
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")

    with serving(shout) as host, pytest.raises(WhyIdleError, match="breaks off, or does not speak HTTP"):
        fetched(f"prometheus+http://{host}/", tmp_path)


def test_nobody_there(tmp_path):
    with pytest.raises(WhyIdleError, match=r"http://127\.0\.0\.1:9 cannot be reached: Connection refused"):
        fetched("prometheus+http://127.0.0.1:9/", tmp_path)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("prometheus+http:///", "no host is named"),
        ("prometheus+http://host:port/", "the port is no number"),
        ("prometheus+http://host/?match=DCGM_FI_DEV_GPU_UTIL", "match is a label selector"),
        ('prometheus+http://host/?match={a="b"}) or (c', "match is a label selector"),
        ("prometheus+http://host/?start=yesterday", "start is a moment"),
        ("prometheus+http://host/?start=-1h&end=-2h", "starts at or after its end"),
        ("prometheus+http://host/?step=0", "step is a time like 15s"),
        ("prometheus+http://host/?steps=1", "'steps' is not one of match, start, end, step"),
        ("prometheus+http://host/?step=1&step=2", "'step' comes twice"),
    ],
)
def test_addresses_that_are_wrong_ask_nobody(tmp_path, address, said):
    with pytest.raises(WhyIdleError) as error:
        fetched(address, tmp_path)
    assert said in error.value.message
    assert not list(tmp_path.iterdir())


def test_moments():
    now = 1_748_800_000.0
    assert moment("now", now, "start") == now
    assert moment("-1h30m", now, "start") == now - 5400
    assert moment("1748779200", now, "start") == 1748779200
    for text in ("2025-06-01T12:00:00Z", "2025-06-01T12:00:00", "2025-06-01 14:00:00+02:00"):
        assert moment(text, now, "start") == 1748779200


@settings(deadline=None)
@given(st.integers(1, 10**7))
def test_a_duration_is_read_as_it_was_written(length_ms):
    assert seconds(duration(length_ms / 1000), "step") == pytest.approx(length_ms / 1000)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_text_gets_past_the_braces(text):
    try:
        inner = matchers(text)
    except WhyIdleError:
        return
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", inner)
    assert not set(outside) & set("{}()[]\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["result", "metric", "values"]), inner),
    max_leaves=8,
)
SERIES = st.fixed_dictionaries(
    {
        "metric": st.dictionaries(st.sampled_from(["gpu", "Hostname", "UUID", "a b", "__name__"]), st.text(max_size=5)),
        "values": st.lists(st.tuples(st.floats(-1e308, 1e308), st.text(max_size=4) | st.sampled_from(["1", "NaN"]))),
    }
)


@settings(max_examples=50, deadline=None)
@given(JSON | st.lists(SERIES).map(lambda series: {"result": series}))
def test_whatever_is_answered_becomes_lines_or_is_refused(data):
    server = Server("http://host")
    answers = [success(["DCGM_FI_DEV_GPU_UTIL"])[1], success(data)[1]]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(Server, "of", classmethod(lambda cls, url: server))
        patch.setattr(Server, "ask", lambda self, path, asked: answers["__name__" not in path])
        try:
            rows = fetched("prometheus+http://host/", Path(folder))
        except WhyIdleError:
            return
    assert rows


def test_only_text_with_a_scheme_that_we_know_is_fetched(tmp_path):
    assert not is_address(str(tmp_path))
    assert not is_address("C:\\runs")
    assert is_address("s3://bucket/trace.json")
    with pytest.raises(WhyIdleError, match=r"knows prometheus\+http://, prometheus\+https://, sagemaker://"):
        source_of("s3://bucket/trace.json")
    assert source_of("PROMETHEUS+HTTP://host/") is Prometheus
    with brought([tmp_path]) as here:
        assert here.paths == [tmp_path]


def test_what_is_shown_has_no_password():
    assert shown("prometheus+http://u:p@ss@host/?a=b@c") == "prometheus+http://host/?a=b@c"
    assert shown("sagemaker://job") == "sagemaker://job"
