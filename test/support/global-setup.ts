import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { TestProject } from 'vitest/node';
import { dataDirState } from '../../src/temporal/data-dir.ts';
import {
  DATABASE_FILE,
  LOOPBACK_CHANNEL_ARGS,
  startEmbeddedTemporal,
  stopOrphans,
} from '../../src/temporal/embedded.ts';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.ts';
import { findTestServer, type Log } from '../../src/temporal/server-binary.ts';
import { workflowSources } from '../../src/temporal/worker.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Host and port of the suite's own Temporal server, namespace `default`. */
    temporalAddress: string;
    /** The Web UI of that server. */
    temporalUiUrl: string;
    /** The path of the time-skipping test server; see `time-skipping.ts`. */
    testServerPath: string;
    /** A folder for the tests' own temporary folders; a later suite clears it when this one is killed. */
    temporaryRoot: string;
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

/** A suite that was killed left servers running (its own, and those of its tests) and a folder: they are ended here. */
async function clearAbandoned(): Promise<void> {
  const parent = await realpath(tmpdir());
  for (const name of await readdir(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const dir = path.join(parent, name);
    try {
      if ((await dataDirState(dir)) !== 'abandoned') continue;
      for (const file of await readdir(dir, { recursive: true })) {
        if (path.basename(file) === DATABASE_FILE) await stopOrphans(path.join(dir, file), log);
      }
      await rm(dir, { recursive: true, force: true, maxRetries: 3 });
    } catch (error) {
      // Another suite may be clearing it too. It is no reason not to run.
      tell({ dir, reason: String(error) }, 'not cleared');
    }
  }
}

/** One Temporal server for the whole suite, in a temporary folder on free ports. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const testServer = await findTestServer({ log });
  await clearAbandoned();
  const dataDir = await mkdtemp(path.join(await realpath(tmpdir()), PREFIX));
  const undo = [() => rm(dataDir, { recursive: true, force: true, maxRetries: 3 })];
  const teardown = async (): Promise<void> => {
    for (const step of undo.toReversed()) await step();
  };

  try {
    const temporal = await startEmbeddedTemporal({ dataDir, port: 0, uiPort: 0, log });
    undo.push(() => temporal.close());
    const connection = await Connection.connect({ address: temporal.address, channelArgs: LOOPBACK_CHANNEL_ARGS });
    try {
      await ensureSearchAttributes(connection, temporal.namespace, log);
    } finally {
      await connection.close();
    }
    const temporaryRoot = path.join(dataDir, 'tests');
    await mkdir(temporaryRoot);
    const { code } = await bundleWorkflowCode(workflowSources());
    const bundlePath = path.join(dataDir, 'workflows.js');
    await writeFile(bundlePath, code);

    project.provide('temporalAddress', temporal.address);
    project.provide('temporalUiUrl', temporal.uiUrl);
    project.provide('testServerPath', testServer.path);
    project.provide('temporaryRoot', temporaryRoot);
    project.provide('workflowBundlePath', bundlePath);
  } catch (error) {
    await teardown();
    throw error;
  }
  return teardown;
}
