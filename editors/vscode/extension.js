// Starts `tenuto twf lsp` and connects the editor to it. Everything that knows the language is in the server.
"use strict";

const fs = require("fs");
const path = require("path");
const { execFile } = require("child_process");
const vscode = require("vscode");
const { LanguageClient, TransportKind } = languageClient();

let client;

/** The client's library: one file in the package (`npm run package` makes it), the installed one while developing. */
function languageClient() {
  const bundled = path.join(__dirname, "dist", "languageclient.js");
  return fs.existsSync(bundled) ? require(bundled) : require("vscode-languageclient/node");
}

/** The command that runs Tenuto: from the settings, from the workspace's virtual environment, or from the PATH. */
function tenutoCommand() {
  const configured = vscode.workspace.getConfiguration("twf").get("command") || [];
  if (configured.length > 0) {
    return configured;
  }
  const places = process.platform === "win32" ? [".venv\\Scripts\\tenuto.exe"] : [".venv/bin/tenuto"];
  for (const folder of vscode.workspace.workspaceFolders || []) {
    for (const place of places) {
      const full = path.join(folder.uri.fsPath, place);
      if (fs.existsSync(full)) {
        return [full];
      }
    }
  }
  return ["tenuto"];
}

async function startServer() {
  const [command, ...before] = tenutoCommand();
  const run = { command, args: [...before, "twf", "lsp"], transport: TransportKind.stdio };
  client = new LanguageClient(
    "twf",
    "TWF",
    { run, debug: run },
    {
      documentSelector: [{ language: "twf" }],
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.twf") },
    }
  );
  try {
    await client.start();
  } catch (error) {
    const install = "pip install 'tenuto[lsp]'";
    vscode.window.showErrorMessage(`TWF: '${command} twf lsp' did not start (${error.message}). Install it: ${install}`);
  }
}

async function stopServer() {
  if (client) {
    const old = client;
    client = undefined;
    await old.stop();
  }
}

/** Draws the open file, as it is in the editor, in a panel beside it. */
function showPicture() {
  const editor = vscode.window.activeTextEditor;
  if (!editor || editor.document.languageId !== "twf") {
    return;
  }
  const [command, ...before] = tenutoCommand();
  const args = [...before, "twf", "graph", "-", "--format", "svg"];
  const options = { maxBuffer: 64 * 1024 * 1024 };
  const child = execFile(command, args, options, (error, stdout, stderr) => {
    if (error) {
      vscode.window.showErrorMessage(`TWF: ${(stderr || error.message).split("\n")[0]}`);
      return;
    }
    const title = path.basename(editor.document.fileName);
    const panel = vscode.window.createWebviewPanel("twfPicture", title, vscode.ViewColumn.Beside, {});
    const policy = "default-src 'none'; style-src 'unsafe-inline'";
    panel.webview.html =
      `<!doctype html><meta http-equiv="Content-Security-Policy" content="${policy}">` +
      `<body style="margin:0;padding:16px;overflow:auto">${stdout}</body>`;
  });
  child.stdin.end(editor.document.getText());
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("twf.restartServer", async () => {
      await stopServer();
      await startServer();
    }),
    vscode.commands.registerCommand("twf.showPicture", showPicture)
  );
  await startServer();
}

async function deactivate() {
  await stopServer();
}

module.exports = { activate, deactivate };
