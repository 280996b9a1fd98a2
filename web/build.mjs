// Builds the report's scripts and style into the package: `npm ci && npm run build` in web/.
// The result is committed, so that nobody who uses whyidle needs Node; tests/render/html/test_bundle.py checks that it is
// fresh.
import { build } from "esbuild";

await build({
  entryPoints: { report: "src/main.tsx" },
  outdir: "../src/whyidle/render/html/bundle",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome100", "firefox115", "safari16.4"],
  legalComments: "inline",
  charset: "ascii",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "info",
});
