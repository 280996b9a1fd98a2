// The timelines of all ranks: one is shown at a time.
import { useState } from "preact/hooks";

import type { Drawn } from "../data";

export function Timelines({ drawn }: { drawn: Drawn }) {
  const [shown] = useState(0);
  const timeline = drawn.timelines[shown];
  return <p>{timeline.title}: {timeline.lanes.reduce((sum, lane) => sum + lane.start.length, 0)} slices</p>;
}
