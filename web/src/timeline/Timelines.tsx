// The timelines of a page: one at a time, or, where a page compares two, both under each other at the same steps.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Drawn } from "../data";
import { jumps } from "../jump";
import { idleShare } from "./about";
import { alike, countAlike, stepsOf } from "./align";
import { saidOf } from "./causes";
import { placeIn, remember, type Place } from "./hash";
import { HELP, type Act } from "./keys";
import { rowsOf } from "./rows";
import { bring, steer } from "./steer";
import { around, meet, same, type Span } from "./span";
import type { Stage } from "./stage";
import { find, type Found } from "./search";
import { TimelineView } from "./TimelineView";
import { download, traceEvents } from "./traceEvents";
import { duration, many, moment, percent } from "./words";

interface Props {
  drawn: Drawn;
  aligned: boolean; // show the first two, at the same steps
}

export function Timelines({ drawn, aligned }: Props) {
  const both = aligned && drawn.timelines.length > 1;
  const [shown, setShown] = useState(0);
  const [help, setHelp] = useState(false);
  const [said, setSaid] = useState("");
  const [scale, setScale] = useState(false); // both with the same time to a px
  const stages = useRef<(Stage | null)[]>([]).current;
  const wanted = useRef<Place | null>(null); // what to show once its timeline stands
  const marked = useRef<(Span & { timeline: number }) | null>(null); // where a link of the page, or to it, leads
  const query = useRef<HTMLInputElement>(null);
  const active = useRef(0); // the timeline that keys and buttons are for
  const linked = useRef(scale);
  linked.current = scale;
  const seeker = useSearch(drawn, stages, active, both);

  const place = (stage: Stage, to: Place, jump: boolean): void => {
    const mark = jump ? to : to.mark;
    marked.current = mark && { timeline: to.timeline, start: mark.start, end: mark.end };
    stage.show(jump ? around(to.start, to.end, stage.whole) : to, jump);
    stage.mark("flash", mark, jump ? 2400 : Infinity); // of who opens a link nobody knows when they look
    if (!jump) return;
    told(to.timeline, stage.target);
    stage.canvas.focus({ preventScroll: true });
  };
  /** Keep in the address what is shown, and what is marked as long as it is in sight. */
  const told = (index: number, span: Span): void => {
    const mark = marked.current;
    const stage = stages[index];
    if (mark && (mark.timeline !== index || !stage || !meet(mark, stage.target))) unmark();
    remember({ timeline: index, start: span.start, end: span.end, mark: marked.current });
  };
  const unmark = (): void => {
    if (marked.current) stages[marked.current.timeline]?.mark("flash", null);
    marked.current = null;
  };
  const go = (to: Place, jump: boolean, label = ""): void => {
    const timeline = drawn.timelines[to.timeline];
    if (!timeline) return;
    const length = to.end - to.start;
    if (jump) setSaid(`${timeline.title}, ${moment(to.start, length)}, ${duration(length)}${label && `: ${label}`}`);
    const stage = stages[to.timeline];
    if (stage) return place(stage, to, jump);
    wanted.current = { ...to };
    jumping.current = jump;
    setShown(to.timeline);
  };
  const jumping = useRef(false);

  useEffect(() => {
    jumps((timeline, start, end, label) => go({ timeline, start, end, mark: null }, true, label));
    const follow = (): void => {
      const to = placeIn(location.hash);
      if (!to) return;
      go(to, false);
      document.getElementById("timeline")?.scrollIntoView({ block: "start" });
    };
    follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);

  const standing = (index: number) => (stage: Stage | null): void => {
    stages[index] = stage;
    if (!stage) return;
    active.current = both ? 0 : index;
    if (both && stages[0]) lead(0, stages[0].span);
    seeker.again();
    if (wanted.current?.timeline !== index) return;
    place(stage, wanted.current, jumping.current);
    wanted.current = null;
  };
  const lead = (index: number, span: Span): void => {
    const other = both ? stages[1 - index] : null;
    if (other) follow(other, alike(drawn.timelines[index], drawn.timelines[1 - index], span, linked.current));
  };
  useEffect(() => {
    const stage = stages[active.current];
    if (stage) lead(active.current, stage.span);
  }, [scale]);
  const spanned = (index: number) => (span: Span): void => {
    active.current = index;
    lead(index, span);
    if (!wanted.current) told(index, span);
  };
  const act = (index: number) => (what: Act): void => {
    active.current = index;
    if (what === "search") query.current?.focus();
    else if (what === "hit") seeker.step(1);
    else if (what === "hitBefore") seeker.step(-1);
    else if (what === "help") setHelp(!help);
    else if (help) setHelp(false);
    else {
      query.current!.value = "";
      seeker.look("");
      unmark();
      if (stages[index]) told(index, stages[index].target);
    }
  };
  const button = (what: Act) => () => {
    const stage = stages[active.current];
    if (stage) steer(stage, what, () => {});
  };
  const save = (): void => {
    const stage = stages[active.current];
    if (!stage) return;
    const name = stage.timeline.title.replace(/[^\w.-]+/g, "-").slice(0, 60);
    download(traceEvents(stage.timeline, stage.span), `${name}.trace.json`);
  };
  const choose = (index: number): void => {
    const from = stages[shown];
    const to = drawn.timelines[index];
    if (from && countAlike(from.timeline, to) && !same(from.span, from.whole)) {
      wanted.current = { timeline: index, ...alike(from.timeline, to, from.span), mark: null };
      jumping.current = false;
    }
    setShown(index);
  };
  const steps = both && drawn.timelines.slice(0, 2).every(stepsOf);

  return (
    <div class="tls">
      <div class="tl-bar">
        {!both && drawn.timelines.length > 1 && <Selector drawn={drawn} shown={shown} choose={choose} />}
        <Search seeker={seeker} input={query} leave={() => stages[active.current]?.canvas.focus()} />
        <span class="tl-buttons">
          <button type="button" aria-label="Zoom in" title="Zoom in (W)" onClick={button("in")}>+</button>
          <button type="button" aria-label="Zoom out" title="Zoom out (S)" onClick={button("out")}>−</button>
          <button type="button" title="Show the whole recording (F)" onClick={button("fit")}>Fit</button>
          <button type="button" aria-expanded={help} aria-label="Keys and gestures" onClick={() => setHelp(!help)}>?</button>
        </span>
      </div>
      {help && <Help />}
      {(both ? [0, 1] : [shown]).map((index) => (
        <div key={index}>
          {both && <h3 class="tl-name"><bdi>{drawn.timelines[index].title}</bdi></h3>}
          <TimelineView
            drawn={drawn}
            timeline={drawn.timelines[index]}
            onStage={standing(index)}
            onSpan={spanned(index)}
            onAct={act(index)}
          />
        </div>
      ))}
      <div class="tl-foot">
        {steps && (
          <label>
            <input type="checkbox" checked={scale} onChange={() => setScale(!scale)} /> same time scale
          </label>
        )}
        <button type="button" class="tl-save" onClick={save}>Save this view as trace JSON</button>
        <span class="tl-soft">opens in ui.perfetto.dev and chrome://tracing</span>
      </div>
      <p class="tl-said" role="status">{said}</p>
    </div>
  );
}

/** Make the other of two timelines show a span, without its telling the first one in turn. */
function follow(stage: Stage, span: Span): void {
  const tell = stage.onSpan;
  stage.onSpan = () => {};
  stage.show(span, false, true);
  stage.onSpan = tell;
}

function Selector({ drawn, shown, choose }: { drawn: Drawn; shown: number; choose: (index: number) => void }) {
  const idle = useMemo(() => drawn.timelines.map((timeline) => {
    const rows = timeline.lanes.filter((lane) => lane.kind === "idle").flatMap(rowsOf);
    const share = idleShare(timeline, rows, timeline);
    return share === null ? "" : ` · idle ${percent(share)}`;
  }), [drawn]);
  return (
    <label class="tl-select">
      <span class="tl-hidden">Timeline shown</span>
      <select value={shown} onChange={(event) => choose(Number(event.currentTarget.value))}>
        {drawn.timelines.map((timeline, index) => <option value={index}>{timeline.title}{idle[index]}</option>)}
      </select>
    </label>
  );
}

interface Seeker {
  found: Found | null;
  at: number; // of the hits
  look: (query: string) => void;
  step: (by: number) => void;
  again: () => void;
}

/** Search in the timeline that is shown, or in the one of two that was used last. */
function useSearch(drawn: Drawn, stages: (Stage | null)[], active: { current: number }, both: boolean): Seeker {
  const [found, setFound] = useState<Found | null>(null);
  const [at, setAt] = useState(-1);
  const kept = useRef({ found, at });
  kept.current = { found, at };
  const said = useMemo(() => (name: string) => saidOf(drawn, "idle", name), [drawn]);

  const look = (query: string): void => {
    const stage = stages[active.current];
    if (!stage) return;
    const made = query.trim() ? find(stage.timeline, stage.every, query, said) : null;
    kept.current = { found: made, at: -1 }; // at once: the key after it may ask for the next hit
    setFound(made);
    setAt(-1);
    for (const one of both ? stages : [stage]) {
      if (!one) continue;
      one.names = !made ? null : one === stage ? made.names : find(one.timeline, [], query, said).names;
      one.redraw();
    }
  };
  const step = (by: number): void => {
    const stage = stages[active.current];
    const { found: now, at: before } = kept.current;
    if (!stage || !now?.hits.length) return;
    let next = before + by;
    if (before < 0) {
      // From what is in view, not from the start of the recording.
      const from = stage.span.start;
      next = Math.max(0, now.hits.findIndex(({ row, at: i }) => row.start[i] >= from)) - (by < 0 ? 1 : 0);
    }
    next = (next + now.hits.length) % now.hits.length;
    kept.current.at = next;
    setAt(next);
    stage.picked = now.hits[next];
    stage.onPick(stage.picked);
    bring(stage, stage.picked);
    stage.redraw();
  };
  const again = (): void => {
    if (kept.current.found) look(kept.current.found.query);
  };
  return { found, at, look, step, again };
}

interface SearchProps {
  seeker: Seeker;
  input: { current: HTMLInputElement | null };
  leave: () => void;
}

function Search({ seeker: { found, at, look, step }, input, leave }: SearchProps) {
  const later = useRef(0);
  const lookNow = (): void => {
    clearTimeout(later.current);
    later.current = 0;
    look(input.current!.value);
  };
  const typed = (): void => {
    clearTimeout(later.current);
    later.current = setTimeout(lookNow, 120) as unknown as number;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === "Enter") {
      if (later.current) lookNow();
      step(event.shiftKey ? -1 : 1);
    }
    if (event.key !== "Escape") return;
    input.current!.value = "";
    lookNow();
    leave();
  };
  const none = found && !found.hits.length;
  return (
    <span class="tl-search" role="search">
      <input ref={input} type="search" aria-label="Find slices by name" placeholder="Find slices" onInput={typed} onKeyDown={key} />
      <span role="status" class="tl-soft">
        {found && (none ? "none" : `${at < 0 ? "" : `${at + 1} of `}${many(found.hits.length, "slice")}, ${duration(found.total)}`)}
      </span>
      {found && !none && (
        <span class="tl-buttons">
          <button type="button" aria-label="Previous hit" onClick={() => step(-1)}>‹</button>
          <button type="button" aria-label="Next hit" onClick={() => step(1)}>›</button>
        </span>
      )}
    </span>
  );
}

function Help() {
  return (
    <dl class="tl-help">
      {HELP.map(([keys, what]) => (
        <div key={keys}>
          <dt>{keys}</dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
  );
}
