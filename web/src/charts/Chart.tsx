// One chart: lines over time or steps, with marks.
import type { Chart as Data } from "../data";

export function Chart({ chart }: { chart: Data }) {
  return <p>{chart.title}: {chart.x.length} points</p>;
}
