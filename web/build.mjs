// Builds the report's scripts and style into the package: `npm ci && npm run build` in web/.
// The result is committed, so that nobody who uses whyidle needs Node; tests/render/html/test_bundle.py checks that it is
// fresh. `node build.mjs FOLDER` builds elsewhere.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";

const folder = process.argv[2] ?? "../src/whyidle/render/html/bundle";

const made = await build({
  entryPoints: { report: "src/main.tsx" },
  outdir: folder,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome100", "firefox115", "safari16.4"],
  legalComments: "none", // the full texts stand in front of the bundle
  charset: "ascii",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  metafile: true,
  write: false,
});

/** The text that each library's licence asks to be kept, of all that went into the bundle. */
function licences() {
  const inputs = Object.keys(made.metafile.inputs);
  const folders = inputs.map((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0]);
  return [...new Set(folders.filter(Boolean))].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
    const text = readFileSync(`${folder}/LICENSE`, "utf8").trim();
    return `${name} ${version} (${license})\n\n${text}\n`;
  }).join("\n" + "-".repeat(72) + "\n\n");
}

/** What the bundle was made of: a file that is newer than the bundle is seen without Node, too. */
function sources() {
  const files = readdirSync("src", { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).replaceAll("\\", "/"));
  const hash = createHash("sha256");
  for (const file of [...files, "build.mjs", "package-lock.json", "tsconfig.json"].sort())
    hash.update(`${file}\0`).update(readFileSync(file)).update("\0");
  return hash.digest("hex");
}

const texts = licences();
mkdirSync(folder, { recursive: true });
for (const { path, text } of made.outputFiles) {
  const notice = path.endsWith(".js") ? `/*! Libraries in this script:\n\n${texts.replaceAll("*/", "* /")}*/\n` : "";
  writeFileSync(join(folder, basename(path)), notice + text);
}
writeFileSync(join(folder, "LICENSES.txt"), texts);
writeFileSync(join(folder, "sources.sha256"), `${sources()}\n`);
