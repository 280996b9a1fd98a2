// Fills the islands of the page: everything that is read stands in it already.
import { render } from "preact";

import { Chart } from "./charts/Chart";
import { read } from "./data";
import { saveReport } from "./save";
import { themes } from "./theme";
import { Timelines } from "./timeline/Timelines";
import "./style.css";
import "./verbs.css";

async function main(): Promise<void> {
  themes();
  saveReport();
  const drawn = await read();
  const place = document.querySelector('[data-island="timeline"]');
  if (place) render(<Timelines drawn={drawn} />, place);
  for (const figure of document.querySelectorAll<HTMLElement>("[data-chart]")) {
    const chart = drawn.charts[Number(figure.dataset.chart)];
    if (chart) render(<Chart chart={chart} />, figure);
  }
  document.documentElement.dataset.ready = "true"; // for tests and the script that takes pictures
}

void main();
