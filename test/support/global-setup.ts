import { mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { TestProject } from 'vitest/node';
import { dataDirState } from '../../src/temporal/data-dir.ts';
import { DATABASE_FILE, startEmbeddedTemporal, stopOrphans } from '../../src/temporal/embedded.ts';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.ts';
import { findTestServer, type Log } from '../../src/temporal/server-binary.ts';
import { workflowsPath } from '../../src/temporal/worker.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Host and port of the suite's own Temporal server, namespace `default`. */
    temporalAddress: string;
    /** The Web UI of that server. */
    temporalUiUrl: string;
    /** The path of the time-skipping test server; see `time-skipping.ts`. */
    testServerPath: string;
    /** The workflows' code, bundled once for all workers of the suite. */
    workflowBundlePath: string;
  }
}

/** Only what goes wrong: the suite's output is the tests'. Fetching a binary takes a while, so that is told too. */
const tell = (object: unknown, message?: string): void => {
  process.stderr.write(`${message ?? ''} ${JSON.stringify(object)}\n`);
};
const log: Log = {
  info: (object: unknown, message?: string) => {
    if (message?.startsWith('fetching') === true) tell(object, message);
  },
  warn: tell,
  error: tell,
};

const PREFIX = 'holdfast-suite-';

/** A suite that was killed left its server running and its folder behind: both are ended here. */
async function clearAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const dir = path.join(await realpath(tmpdir()), name);
    // A folder that is gone by now, or that cannot be read, is another suite's affair.
    const state = await dataDirState(dir).catch(() => 'free');
    if (state !== 'abandoned') continue;
    await stopOrphans(path.join(dir, DATABASE_FILE), log);
    await rm(dir, { recursive: true, force: true });
  }
}

/** One Temporal server for the whole suite, in a temporary folder on free ports. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const testServer = await findTestServer({ log });
  await clearAbandoned();
  const dataDir = await mkdtemp(path.join(tmpdir(), PREFIX));
  const temporal = await startEmbeddedTemporal({ dataDir, port: 0, uiPort: 0, log });
  const teardown = async (): Promise<void> => {
    await temporal.close();
    await rm(dataDir, { recursive: true, force: true });
  };

  try {
    const connection = await Connection.connect({ address: temporal.address });
    try {
      await ensureSearchAttributes(connection, temporal.namespace, log);
    } finally {
      await connection.close();
    }
  } catch (error) {
    await teardown();
    throw error;
  }

  const { code } = await bundleWorkflowCode({ workflowsPath: workflowsPath() });
  const bundlePath = path.join(dataDir, 'workflows.js');
  await writeFile(bundlePath, code);

  project.provide('workflowBundlePath', bundlePath);
  project.provide('temporalAddress', temporal.address);
  project.provide('temporalUiUrl', temporal.uiUrl);
  project.provide('testServerPath', testServer.path);
  return teardown;
}
