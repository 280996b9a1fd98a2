// Times as a person reads them, with three digits and their unit: the same as src/whyidle/render/words.py says them.
const UNITS: [string, number][] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

/** "850 ns", "12.3 µs", "176 ms", "1.24 s", "2.5 h". */
export function duration(ns: number): string {
  if (!(ns > 0)) return "0 s";
  if (ns >= 7200e9) return `${digits(ns / 3600e9)} h`;
  if (ns >= 1000e9) return `${digits(ns / 60e9)} min`;
  // 0.9995 so that what rounds to a thousand takes the larger unit
  const [unit, size] = UNITS.find(([, one]) => ns >= one * 0.9995) ?? ["ns", 1];
  return `${digits(ns / size)} ${unit}`;
}

function digits(value: number): string {
  if (value >= 99.95) return grouped(Math.round(value), 0);
  return String(Number(value.toFixed(value >= 9.995 ? 1 : 2)));
}

/** A moment of the recording, in seconds, to a thousandth of a window of this length. */
export function moment(ns: number, window: number): string {
  const decimals = Math.min(9, Math.max(0, Math.ceil(3 - Math.log10(Math.max(window, 1) / 1e9))));
  return `${formatOf(0, decimals).format(ns / 1e9)} s`;
}

/** A number with its thousands apart. */
export function grouped(value: number, decimals: number): string {
  return formatOf(decimals, decimals).format(value);
}

const formats = new Map<number, Intl.NumberFormat>(); // to make one takes longer than all that a frame draws

function formatOf(least: number, most: number): Intl.NumberFormat {
  const key = 100 * least + most;
  let made = formats.get(key);
  if (!made)
    formats.set(key, (made = new Intl.NumberFormat("en-US", { minimumFractionDigits: least, maximumFractionDigits: most })));
  return made;
}

/** "34%", "3.4%", "<0.1%". */
export function percent(share: number): string {
  if (share <= 0) return "0%";
  if (share < 0.001) return "<0.1%";
  return `${share < 0.0995 ? Number((share * 100).toFixed(1)) : Math.round(share * 100)}%`;
}

/** A count and its noun. */
export function many(count: number, one: string, more = `${one}s`): string {
  return `${grouped(count, 0)} ${count === 1 ? one : more}`;
}
