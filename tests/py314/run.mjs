// Runs tests/py314/inside.py on CPython compiled to WebAssembly: node run.mjs PYODIDE REPOSITORY SITE_PACKAGES [pytest arguments]
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [pyodideFolder, repository, sitePackages, ...rest] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(pyodideFolder, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: pyodideFolder });

function mount(folder, at) {
  python.FS.mkdirTree(at);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, at);
}

mount(repository, "/repository");
mount(sitePackages, "/site-packages");
python.globals.set("pytest_arguments", python.toPy(rest));
const code = python.runPython(`
import sys
sys.path[:0] = ["/repository/tests/py314", "/repository/src", "/site-packages"]
import inside
inside.main(list(pytest_arguments))
`);
process.exit(code);
