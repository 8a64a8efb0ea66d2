// Builds the page: node build.mjs [--out FOLDER]. Files under assets/ carry a hash of their content in the name.
import {build} from 'esbuild';
import {mkdir, readFile, rm, writeFile} from 'node:fs/promises';
import {dirname, join, relative} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf('--out');
const out = at > 0 ? process.argv[at + 1] : join(here, 'dist');
await rm(out, {recursive: true, force: true});
await mkdir(out, {recursive: true});
const result = await build({
  absWorkingDir: here,
  entryPoints: {app: 'src/main.tsx'},
  bundle: true, splitting: true, minify: true, format: 'esm', target: 'es2020',
  jsx: 'automatic', jsxImportSource: 'preact',
  outdir: join(out, 'assets'), entryNames: '[name]-[hash]', chunkNames: 'part-[hash]', assetNames: '[name]-[hash]',
  metafile: true, legalComments: 'none', logLevel: 'warning',
});
let script = '', style = '';
for (const [path, info] of Object.entries(result.metafile.outputs)) {
  const name = 'assets/' + relative(join(out, 'assets'), join(here, path)).replaceAll('\\', '/');
  if (info.entryPoint === 'src/main.tsx') {
    script = name;
    if (info.cssBundle) style = 'assets/' + relative(join(out, 'assets'), join(here, info.cssBundle)).replaceAll('\\', '/');
  }
}
const page = (await readFile(join(here, 'src/index.html'), 'utf8')).replace('@SCRIPT@', '/' + script).replace('@STYLE@', '/' + style);
await writeFile(join(out, 'index.html'), page);
