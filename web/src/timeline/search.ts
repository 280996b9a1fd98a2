// Finds slices by a part of their name.
import type { Timeline } from "../data";
import type { Row } from "./rows";

export interface Hit {
  row: Row;
  at: number;
}

export interface Found {
  query: string;
  names: Uint8Array; // 1 for each name that has the text
  hits: Hit[]; // in order of time
  total: number; // ns that they take together
}

/** Return all slices whose name, or what the name is said as, has the text. */
export function find(timeline: Timeline, rows: Row[], query: string, said: (name: string) => string): Found {
  const wanted = query.trim().toLowerCase();
  const names = Uint8Array.from(timeline.names, (name) =>
    Number(name.toLowerCase().includes(wanted) || said(name).toLowerCase().includes(wanted)));
  const hits: Hit[] = [];
  let total = 0;
  for (const row of rows) {
    for (let at = 0; at < row.start.length; at++) {
      if (!names[row.name[at]]) continue;
      hits.push({ row, at });
      total += row.end[at] - row.start[at];
    }
  }
  hits.sort((a, b) => a.row.start[a.at] - b.row.start[b.at]);
  return { query: wanted, names, hits, total };
}
