// The titles of lanes, beside the canvas or above each lane, with what unfolds those that are deep or many.
import type { Layout } from "./layout";
import type { Stage } from "./stage";
import { many } from "./words";

export function Titles({ stage, plan }: { stage: Stage; plan: Layout }) {
  const beside = plan.caption === 0;
  return (
    <div class={beside ? "tl-titles" : "tl-titles tl-above"}>
      {plan.strips.map(({ lane, top, rows, folded, open }) => (
        <div class={`tl-title tl-${lane.kind}`} style={{ top: `${beside ? top : top - plan.caption}px` }}>
          <span title={lane.title} style={beside ? { lineHeight: `${rows[0]?.height ?? 15}px` } : {}}>
            <bdi>{lane.title}</bdi>
          </span>
          {folded > 0 && (
            <button type="button" aria-expanded={open} onClick={() => stage.unfold(lane)}>
              {open ? "fold" : `+${many(folded, "row")}`}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
