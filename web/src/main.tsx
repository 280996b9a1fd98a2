// Fills the islands of the page: everything that is read stands in it already.
import { render } from "preact";

import { charts } from "./charts/charts";
import { copies } from "./copy";
import { read } from "./data";
import { folds } from "./folds";
import { here } from "./here";
import { saveReport } from "./save";
import { themes } from "./theme";
import { Timelines } from "./timeline/Timelines";
import "./style.css";
import "./tables.css";
import "./timeline/timeline.css";
import "./verbs.css";
import "./sections.css";
import "./print.css";

async function main(): Promise<void> {
  themes();
  saveReport();
  copies();
  folds();
  here();
  if (!("DecompressionStream" in window)) return; // a browser older than 2023 keeps what the page says without scripts
  const drawn = await read();
  const place = document.querySelector<HTMLElement>('[data-island="timeline"]');
  if (place && drawn.timelines.length) {
    place.textContent = ""; // what stood there for readers without these scripts
    render(<Timelines drawn={drawn} aligned={place.dataset.align === "step"} />, place);
  }
  charts(drawn);
  document.documentElement.dataset.ready = "true"; // for tests and the script that takes pictures
}

void main();
