/** What a run stands on: a server of its own in a temporary folder, the receiver, and the forms with their processes. */
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clientOf, connectClient } from '../src/temporal/connection.ts';
import { startEmbeddedTemporal } from '../src/temporal/embedded.ts';
import { ensureSearchAttributes } from '../src/temporal/search-attributes.ts';
import type { Log } from '../src/temporal/server-binary.ts';
import type { Form } from './forms/form.ts';
import { startBare } from './forms/bare.ts';
import { startHttp } from './forms/http.ts';
import { startScheduler } from './forms/scheduler.ts';
import { NAMESPACE } from './holdfast.ts';
import type { Stage } from './measure.ts';
import type { FormName } from './options.ts';
import { startChild } from './processes/child.ts';
import { processOf } from './processes/measured.ts';
import { startReceiver } from './receiver.ts';

export interface Opened extends Stage {
  /** Bare first. */
  forms: Form[];
  serverVersion: string;
  close(): Promise<void>;
}

/** Whatever was opened is closed again when a later part cannot start. */
export async function openStage(names: readonly FormName[], log: Log): Promise<Opened> {
  const undo: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    const dataDir = await mkdtemp(path.join(await realpath(tmpdir()), 'holdfast-bench-'));
    undo.push(() => rm(dataDir, { recursive: true, force: true, maxRetries: 3 }));
    const temporal = await startEmbeddedTemporal({ dataDir, port: 0, uiPort: 0, log });
    undo.push(() => temporal.close());
    const connection = await connectClient({ namespace: NAMESPACE, options: { address: temporal.address } });
    undo.push(() => connection.close());
    await ensureSearchAttributes(connection, NAMESPACE, log);
    const receiver = await startReceiver();
    undo.push(() => receiver.close());

    const input = { temporalAddress: temporal.address, receiverUrl: receiver.url };
    const forms: Form[] = [];
    const opened = (form: Form): void => {
      undo.push(() => form.close());
      forms.push(form);
    };
    opened(await startBare(input));
    if (names.length > 1) {
      // One for both: only one of the forms works at a time.
      const worker = await startChild('worker', input);
      undo.push(() => worker.close());
      if (names.includes('scheduler')) opened(await startScheduler(input, worker));
      if (names.includes('http')) opened(await startHttp(input, worker));
    }
    const client = clientOf(connection, { namespace: NAMESPACE });
    return {
      client,
      server: processOf(temporal.pid),
      receiver,
      forms,
      serverVersion: temporal.serverVersion,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
