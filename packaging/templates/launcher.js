#!/usr/bin/env node
// Starts the binary of this platform, which npm has installed as an optional dependency, and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@vmcp/${process.platform}-${process.arch}`;
const supported = Object.keys(require("../package.json").optionalDependencies);

function binary() {
  if (!supported.includes(name)) {
    throw new Error(`no binary for ${process.platform} ${process.arch}; there are ${supported.join(", ")}`);
  }
  try {
    return require.resolve(`${name}/bin/vmcp`);
  } catch {
    throw new Error(`${name} is not installed; install vmcp again, without --omit=optional and --no-optional`);
  }
}

function launch(program) {
  // A terminal signals the child too, which by VMCP_LAUNCHED takes the forwarded signal for the same one. A process
  // manager signals this process alone.
  const env = { ...process.env, VMCP_LAUNCHED: "1" };
  const child = spawn(program, process.argv.slice(2), { env, stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", (error) => fail(`cannot start ${program}: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
}

function fail(message) {
  console.error(`vmcp: ${message}`);
  process.exit(1);
}

try {
  launch(binary());
} catch (error) {
  fail(error.message);
}
