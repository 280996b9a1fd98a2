// What a chart shows at one x: beside the cursor for who points at it, in words for who hears it.
import type { Chart } from "../data";
import { number, type Range, spoken, withUnit } from "./axes";

const FEW = 3; // values that a caption has room for
const SHOWN = 9; // lines in the box; of more the largest

/** The box beside the cursor. */
export class Readout {
  readonly element = document.createElement("div");
  readonly short = document.createElement("span"); // in the caption of charts that follow another's cursor

  constructor(
    private readonly chart: Chart,
    private readonly roles: string[],
  ) {
    this.element.className = "chart-tip";
    this.element.hidden = true;
    this.element.setAttribute("aria-hidden", "true");
    this.short.className = "chart-now";
    this.short.setAttribute("aria-hidden", "true");
  }

  hide(): void {
    this.element.hidden = true;
    this.short.textContent = "";
  }

  /** Only values, so that no box hides what a reader compares. */
  follow(index: number): void {
    this.hide();
    const { lines, unit } = this.chart;
    if (lines.length <= FEW) this.short.textContent = lines.map(({ y }) => withUnit(y[index], unit)).join(" \u00b7 ");
  }

  show(index: number, left: number, width: number, range: Range, hint: string): void {
    const head = document.createElement("strong");
    head.textContent = spoken(this.chart.x[index], this.chart, range);
    const rows = this.order(index).map((line) => this.row(line, index));
    const more = this.chart.lines.length - rows.length;
    const notes = [...marked(this.chart, this.chart.x[index]), more ? `${more} more` : "", hint].filter(Boolean);
    this.element.replaceChildren(head, ...rows, ...notes.map(note));
    this.short.textContent = "";
    this.element.hidden = false;
    const right = left > width / 2;
    const room = this.element.offsetWidth;
    const at = right ? left - room - 12 : left + 12;
    this.element.style.transform = `translateX(${Math.max(-40, Math.min(width - room, at))}px)`;
  }

  private order(index: number): number[] {
    const all = this.chart.lines.map((_, line) => line);
    if (all.length <= SHOWN) return all;
    const value = (line: number): number => this.chart.lines[line].y[index] ?? -Infinity;
    return all.sort((a, b) => value(b) - value(a)).slice(0, SHOWN);
  }

  private row(line: number, index: number): HTMLElement {
    const row = document.createElement("div");
    const name = document.createElement("span");
    name.className = `chart-tip-name line-${this.roles[line]}`;
    name.textContent = this.chart.lines[line].label || this.chart.title;
    const value = document.createElement("span");
    value.textContent = valueOf(this.chart, line, index);
    row.append(name, value);
    return row;
  }
}

/** The same as one sentence. */
export function sentence(chart: Chart, index: number, range: Range): string {
  const lines = chart.lines.map((line, i) => `${line.label || chart.title} ${valueOf(chart, i, index)}`);
  return [spoken(chart.x[index], chart, range), ...lines, ...marked(chart, chart.x[index])].join(", ");
}

function valueOf(chart: Chart, line: number, index: number): string {
  const { y, low, high } = chart.lines[line];
  const said = withUnit(y[index], chart.unit);
  const [least, most] = [low?.[index], high?.[index]];
  if (typeof least !== "number" || typeof most !== "number" || least === most) return said;
  return `${said} (${number(least)} to ${number(most)})`;
}

/** Names of the stretches that an x lies in; steps have a number at the axis. */
function marked(chart: Chart, x: number): string[] {
  const here = chart.marks.filter((mark) => mark.kind !== "step" && mark.start <= x && x <= mark.end);
  return here.map((mark) => mark.label);
}

function note(text: string): HTMLElement {
  const element = document.createElement("em");
  element.textContent = text;
  return element;
}
