// One timeline: its canvas, and around it the lanes' titles, details, legend.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Drawn, Timeline } from "../data";
import { about, aboutLeftOut, idleShare, legend, type About } from "./about";
import { gestures } from "./gestures";
import { actOf, type Act } from "./keys";
import type { Layout } from "./layout";
import { minimapDrag } from "./minimapDrag";
import { Stage, type Picked } from "./stage";
import type { Span } from "./span";
import { bring, into, steer } from "./steer";
import { Titles } from "./Titles";
import { duration, many, moment, percent } from "./words";

interface Props {
  drawn: Drawn;
  timeline: Timeline;
  /** Called with the stage when it stands, and with null when it is taken down. */
  onStage: (stage: Stage | null) => void;
  onSpan: (span: Span) => void;
  onAct: (act: Act) => void;
}

interface Tip {
  x: number;
  y: number;
  about: About;
}

export function TimelineView({ drawn, timeline, onStage, onSpan, onAct }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const strip = useRef<HTMLCanvasElement>(null);
  const [stage, setStage] = useState<Stage | null>(null);
  const [plan, setPlan] = useState<Layout | null>(null);
  const [span, setSpan] = useState<Span>({ start: timeline.start, end: timeline.end });
  const [tip, setTip] = useState<Tip | null>(null);
  const [picked, setPicked] = useState<Picked | null>(null);
  const tell = useRef({ onSpan, onAct });
  tell.current = { onSpan, onAct };

  const pick = (on: Stage, at: Picked | null): void => {
    on.picked = at;
    setPicked(at);
    if (at) bring(on, at);
    on.redraw();
  };

  useEffect(() => {
    const made = new Stage(drawn, timeline, canvas.current!, strip.current!);
    made.onPlan = setPlan;
    made.told = slowly(setSpan);
    made.onSpan = (now) => tell.current.onSpan(now);
    made.onPick = setPicked;
    setPlan(made.plan);
    setStage(made);
    setSpan(made.span);
    setPicked(null);
    onStage(made);
    const hover = (at: Picked | null, x = 0, y = 0): void => {
      if (at?.row !== made.hovered?.row || at?.at !== made.hovered?.at) {
        made.hovered = at;
        made.redraw();
      }
      made.canvas.style.cursor = at ? "pointer" : "";
      const few = at ? null : made.leftOut(x, y);
      const said = at ? about(drawn, timeline, at.row, at.at) : few && aboutLeftOut(few.lane, few.share);
      setTip(said && { x, y, about: said });
    };
    const off = gestures(made, {
      hover: (x, y) => hover(made.hit(x, y), x, y),
      leave: () => hover(null),
      tap: (x, y) => pick(made, made.hit(x, y, 8)),
      twice: (x, y) => into(made, made.hit(x, y, 8)),
    });
    const offStrip = minimapDrag(made);
    const offScreen = screen(made);
    return () => {
      off();
      offStrip();
      offScreen();
      made.end();
      onStage(null);
    };
  }, [timeline]);

  const key = (event: KeyboardEvent): void => {
    const act = actOf(event);
    if (!act || !stage) return;
    event.preventDefault();
    if (act === "leave" && stage.picked) pick(stage, null);
    else if (!steer(stage, act, (at) => pick(stage, at))) tell.current.onAct(act);
  };
  const [single, setSingle] = useState<string | null>(null);
  const choose = (slug: string): void => {
    const now = single === slug ? null : slug;
    setSingle(now);
    stage!.cause = now;
    stage!.redraw();
  };
  const detail = picked && about(drawn, timeline, picked.row, picked.at);
  const rows = stage?.every ?? [];
  // Not at every move of the pointer.
  const idle = useMemo(() => idleShare(timeline, rows, span), [stage, span]);
  const entries = useMemo(() => (stage ? legend(drawn, timeline, rows, span) : []), [stage, span]);
  return (
    <div class="tl">
      <canvas class="tl-mini" ref={strip} aria-hidden="true" />
      <div class="tl-stage">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-roledescription="timeline"
          aria-label={`${timeline.title}: ${moment(span.start, span.end - span.start)} to ${moment(span.end, span.end - span.start)}. Press ? for keys.`}
          onKeyDown={key}
        />
        {stage && plan && <Titles stage={stage} plan={plan} />}
        {tip && stage && <Hover tip={tip} wide={stage.left + stage.width} />}
      </div>
      {stage && plan && plan.hidden > 0 && <More stage={stage} plan={plan} />}
      <p class="tl-detail" aria-live="polite">
        {detail ? (
          <Detail about={detail} />
        ) : (
          <span class="tl-soft">
            {duration(span.end - span.start)} shown{idle === null ? "" : ` · GPU idle ${percent(idle)} of it`}{" "}
            <span class="tl-hint">Tap a slice for details.</span>
          </span>
        )}
      </p>
      {entries.length > 0 && <Legend entries={entries} single={single} choose={choose} />}
      {timeline.note && <p class="tl-note tl-soft">{timeline.note}</p>}
    </div>
  );
}

/** Keep a stage as wide as its place and in the colours of the theme, on screen and on paper. */
function screen(stage: Stage): () => void {
  const off = new AbortController();
  const { signal } = off;
  let wide = 0;
  const seen = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === wide) return; // its height is that of the stage
    wide = contentRect.width;
    requestAnimationFrame(() => signal.aborted || stage.resize()); // not in here: a size may not change while sizes are told
  });
  seen.observe(stage.canvas.parentElement!);
  addEventListener("whyidle-theme", () => stage.repaint(), { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => stage.repaint(), { signal });
  matchMedia("print").addEventListener("change", (event) => stage.print(event.matches), { signal });
  addEventListener("beforeprint", () => stage.print(true), { signal });
  addEventListener("afterprint", () => stage.print(false), { signal });
  return () => {
    seen.disconnect();
    off.abort();
  };
}

/** Call at most ten times a second, the last time for sure: text need not follow every frame. */
function slowly<T>(act: (value: T) => void): (value: T) => void {
  let last: { value: T } | null = null;
  let waiting = false;
  return (value) => {
    last = { value };
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      act(last!.value);
    }, 100);
  };
}

function Hover({ tip, wide }: { tip: Tip; wide: number }) {
  const width = Math.min(320, wide - 16);
  const left = Math.max(8, Math.min(tip.x + 14, wide - width - 8));
  return (
    <div class="tl-tip" aria-hidden="true" style={{ left: `${left}px`, top: `${tip.y + 18}px`, maxWidth: `${width}px` }}>
      <Detail about={tip.about} />
    </div>
  );
}

function Detail({ about: { name, length, facts, meaning } }: { about: About }) {
  return (
    <>
      <b><bdi>{name}</bdi></b> <span class="tl-length">{length}</span>{" "}
      <span class="tl-soft">{facts.join(" · ")}</span>
      {meaning && <span class="tl-meaning"> {meaning}</span>}
    </>
  );
}

function More({ stage, plan }: { stage: Stage; plan: Layout }) {
  return (
    <button type="button" class="tl-more" aria-expanded={plan.all} onClick={() => stage.showAll(!plan.all)}>
      {plan.all ? "Show fewer lanes" : `Show ${many(plan.hidden, "more lane", "more lanes")}`}
    </button>
  );
}

interface LegendProps {
  entries: ReturnType<typeof legend>;
  single: string | null;
  choose: (slug: string) => void;
}

/** The causes of idle time in view; choosing one makes the others stand back. */
function Legend({ entries, single, choose }: LegendProps) {
  return (
    <ul class="tl-legend" aria-label="Causes of idle time">
      {entries.map(({ slug, label, meaning, share }) => (
        <li key={slug}>
          <button
            type="button"
            class={`tl-cause c-${slug}`}
            aria-pressed={single === slug}
            title={meaning}
            onClick={() => choose(slug)}
          >
            <i class="tl-swatch" />
            {label} <span class="tl-soft">{percent(share)}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

