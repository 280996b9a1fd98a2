// Fills the islands of the page: everything that is read stands in it already.
import { render } from "preact";

import { charts } from "./charts/charts";
import { read } from "./data";
import { saveReport } from "./save";
import { themes } from "./theme";
import { Timelines } from "./timeline/Timelines";
import "./style.css";

async function main(): Promise<void> {
  themes();
  saveReport();
  const drawn = await read();
  const place = document.querySelector('[data-island="timeline"]');
  if (place) render(<Timelines drawn={drawn} />, place);
  charts(drawn);
  document.documentElement.dataset.ready = "true"; // for tests and the script that takes pictures
}

void main();
