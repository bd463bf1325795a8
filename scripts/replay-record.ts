/**
 * Records the histories that the replay tests replay: `npm run replay:record [-- [--force] [name...]]`; docs/replay.md.
 * Real Tasks on a real server of their own, each driven to its end and written to `test/replay/histories`.
 */
import { access, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { pino } from 'pino';
import { createActivities } from '../activities/index.ts';
import type { ScheduleBody } from '../src/contracts/api.ts';
import { HoldfastError, type ErrorCode } from '../src/contracts/errors.ts';
import { addSeconds, instantOf } from '../src/contracts/instant.ts';
import type { TaskReadyCloudEvent } from '../src/contracts/task-ready.ts';
import type { TaskView } from '../src/contracts/task.ts';
import type { TaskPolicy } from '../src/contracts/workflow.ts';
import { Gateway } from '../src/scheduler/gateway.ts';
import { fingerprintOf, workflowIdOf } from '../src/scheduler/identity.ts';
import { Scheduler, type CommandTarget } from '../src/scheduler/scheduler.ts';
import { ServerClock } from '../src/scheduler/server-clock.ts';
import { clientOf, connectClient, connectWorker } from '../src/temporal/connection.ts';
import { startEmbeddedTemporal } from '../src/temporal/embedded.ts';
import { ensureSearchAttributes } from '../src/temporal/search-attributes.ts';
import { installRuntime, startWorkers } from '../src/temporal/worker.ts';
import { createTransports } from '../src/transports/index.ts';
import { decisionsOf, FIXTURES, HISTORIES_DIR, historyOf, pathOf, type FixtureName } from '../test/replay/fixtures.ts';
import { readableTextOf, scrub } from '../test/replay/scrub.ts';
import { startReadyInbox, type ReadyInbox } from '../test/support/ready-inbox.ts';

const CUSTOMER = 'acme';
const TASK_QUEUE = 'holdfast';
const FORGED_TOKEN = 'evt_ffffffff-ffff-4fff-8fff-ffffffffffff';
const UNTIL_MS = 30_000;
const UNTIL_ROUND_MS = 50;

/** Spelt out, so that a change of the defaults changes no history. */
const POLICY: TaskPolicy = {
  deliveryTaskQueue: 'holdfast-delivery',
  publish: { initialSeconds: 1, factor: 2, maximumSeconds: 300, attempts: 12, timeoutSeconds: 15, totalSeconds: 3600 },
  redelivery: { afterSeconds: 300, maximumSeconds: 3600, rounds: 10 },
  continueAsNewAfterSignals: 1000,
};

/** Soon used up. */
const TWO_ATTEMPTS: TaskPolicy = {
  ...POLICY,
  publish: { ...POLICY.publish, initialSeconds: 0.1, factor: 1, maximumSeconds: 0.1, attempts: 2 },
};

/** What every recording stands on. */
interface Ground {
  client: Client;
  gateway: Gateway;
  inbox: ReadyInbox;
  startWorkers(): Promise<void>;
}

/** One Task under way, called as its fixture. */
class Subject {
  readonly taskId: string;
  readonly handle: WorkflowHandle;
  readonly inbox: ReadyInbox;
  readonly scheduler: Scheduler;

  constructor(taskId: string, policy: TaskPolicy, { client, gateway, inbox }: Ground) {
    this.taskId = taskId;
    this.inbox = inbox;
    this.handle = client.workflow.getHandle(workflowIdOf(CUSTOMER, taskId));
    const log = pino({ level: 'silent' });
    const clock = new ServerClock(Date.now, log);
    this.scheduler = new Scheduler({
      gateway,
      clock,
      log,
      policy,
      runTimeoutSeconds: 3600,
      runTimeoutSecondsMax: 86_400,
    });
  }

  async schedule(request: Partial<ScheduleBody> = {}): Promise<void> {
    await this.scheduler.schedule(CUSTOMER, { taskId: this.taskId, type: 'replay', ...request }, 'schedule-key');
  }

  target(key: string): CommandTarget {
    return { customerId: CUSTOMER, taskId: this.taskId, key, keyIsFresh: false };
  }

  async until(what: string, predicate: (task: TaskView) => boolean): Promise<TaskView> {
    return within(`${this.taskId}: ${what}`, async () => {
      const task = await this.scheduler.get(CUSTOMER, this.taskId);
      return !('asOf' in task) && predicate(task) ? task : null;
    });
  }

  /** The delivery, once the workflow knows that it went out too. */
  async published(count = 1): Promise<TaskReadyCloudEvent> {
    const event = await this.inbox.next(this.taskId, count);
    await this.until('queued', ({ status, delivery }) => status === 'queued' && delivery.state === 'published');
    return event;
  }

  async claim(event: TaskReadyCloudEvent): Promise<void> {
    await this.scheduler.claim(this.target('claim-key'), { deliveryEventId: event.id, executorId: 'executor-1' });
  }

  async succeed(): Promise<void> {
    await this.scheduler.recordResult(this.target('result-key'), {
      success: true,
      summary: 'found it',
      output: { answer: 42 },
      effects: [{ kind: 'commit', ref: 'abc123', note: 'the fix' }],
    });
  }

  /** Signs by hand, as anybody with Temporal's own tools can. */
  async signal(name: string, ...payload: unknown[]): Promise<void> {
    await this.handle.signal(name, ...payload);
  }

  /** A well-formed command that the scheduler itself would not send. */
  async command(kind: string, key: string, fields: Record<string, unknown> = {}): Promise<void> {
    await this.signal(kind, { key, fingerprint: fingerprintOf(fields), ...fields });
  }
}

interface Recorder {
  policy?: TaskPolicy;
  /** Drives the Task to its end. Returns the ids of runs before the last that are to be recorded too. */
  drive: (task: Subject, ground: Ground) => Promise<string[] | void>;
}

/** `continued-as-new` records two files, every other one a file of its own name. */
type RecorderName = Exclude<FixtureName, `continued-as-new-${string}`> | 'continued-as-new';

const RECORDERS: Record<RecorderName, Recorder> = {
  // The first of all, and the only one that begins while no worker runs: everything is in its first workflow task.
  'commands-before-start': {
    drive: async (task, ground) => {
      await task.schedule();
      await task.command('message', 'message-1', { messageId: 'msg-1', body: 'early' });
      await task.command('claim', 'claim-key', {
        deliveryEventId: FORGED_TOKEN,
        executorId: null,
        expiresAt: addSeconds(instantOf(Date.now()), 3600),
      });
      await task.signal('message', null);
      const error = { message: 'failed before it began' };
      const result = { success: false, summary: null, output: null, effects: [], error };
      await task.command('result', 'result-key', { ...result, claimId: null, ifMailboxSeq: null });
      await ground.startWorkers();
    },
  },

  succeeded: {
    drive: async (task) => {
      await task.schedule({
        input: { incident: 'INC-7', questions: ['why', 'since when'] },
        priority: 2,
        source: { kind: 'incident', ref: 'INC-7', url: 'https://example.com/INC-7' },
        labels: { team: 'core' },
      });
      await task.claim(await task.published());
      await task.succeed();
    },
  },

  failed: {
    drive: async (task) => {
      await task.schedule();
      await task.claim(await task.published());
      const error = { code: 'not-found', message: 'nothing there' };
      await task.scheduler.recordResult(task.target('result-key'), { success: false, error, claimId: 'claim-key' });
    },
  },

  'canceled-scheduled': {
    drive: async (task) => {
      await task.schedule({ delaySeconds: 3600 });
      await task.until('waiting for its release', ({ nextAlarmAt }) => nextAlarmAt !== null);
      await task.scheduler.cancel(task.target('cancel-key'), { reason: 'no longer needed' });
    },
  },

  'canceled-running': {
    drive: async (task) => {
      await task.schedule();
      await task.claim(await task.published());
      await task.scheduler.cancel(task.target('cancel-key'), {});
    },
  },

  'canceled-in-temporal': {
    drive: async (task) => {
      await task.schedule();
      await task.claim(await task.published());
      await task.handle.cancel();
    },
  },

  'timed-out': {
    drive: async (task) => {
      await task.schedule({ runTimeoutSeconds: 1 });
      await task.claim(await task.published());
    },
  },

  'scheduled-release': {
    drive: async (task) => {
      await task.schedule({ delaySeconds: 2 });
      await task.claim(await task.published());
      await task.succeed();
    },
  },

  'claimed-before-published': {
    drive: async (task) => {
      task.inbox.answerWith(async (event) => {
        await task.claim(event);
        return 202;
      });
      await task.schedule();
      await within(`${task.taskId}: end of its publish`, async () => {
        const { events } = await task.handle.fetchHistory();
        return (events ?? []).some(
          (event) => event.activityTaskCompletedEventAttributes ?? event.activityTaskCanceledEventAttributes,
        )
          ? true
          : null;
      });
      await task.succeed();
    },
  },

  'publish-failed': {
    policy: TWO_ATTEMPTS,
    drive: async (task) => {
      task.inbox.answerWith(503);
      await task.schedule();
      await task.until('exhausted', ({ delivery }) => delivery.state === 'exhausted');
      task.inbox.answerWith(202);
      await task.scheduler.sendMessage(task.target('message-1'), { body: 'still there?' });
      await task.claim(await task.published(3));
      await task.succeed();
    },
  },

  redelivered: {
    policy: { ...POLICY, redelivery: { afterSeconds: 1, maximumSeconds: 60, rounds: 10 } },
    drive: async (task) => {
      await task.schedule();
      await task.claim(await task.published(2));
      await task.succeed();
    },
  },

  'given-up-unclaimed': {
    policy: { ...POLICY, redelivery: { afterSeconds: 2, maximumSeconds: 2, rounds: 1 } },
    drive: async (task) => {
      await task.schedule();
      await task.until('given up', ({ delivery }) => delivery.state === 'exhausted');
      await task.command('redeliver', 'redeliver-key');
      await task.claim(await task.published(2));
      await task.command('redeliver', 'redeliver-while-running');
      await task.succeed();
    },
  },

  messages: {
    drive: async (task) => {
      const { scheduler } = task;
      const send = (key: string, body: string): Promise<unknown> => scheduler.sendMessage(task.target(key), { body });
      await task.schedule({ delaySeconds: 2 });
      const early = { deliveryEventId: FORGED_TOKEN };
      await refused('not-released', scheduler.claim(task.target('claim-early'), early));
      await send('message-1', 'before the release');
      await send('message-1', 'before the release');
      await refused('idempotency-key-reused', send('message-1', 'another body'));
      const event = await task.published();
      const token = { deliveryEventId: event.id };
      await refused('token-mismatch', scheduler.claim(task.target('claim-forged'), early));
      await task.command('claim', 'claim-late', {
        ...token,
        executorId: null,
        expiresAt: addSeconds(instantOf(Date.now()), -60),
      });
      await task.claim(event);
      await task.claim(event); // the same key: the same verdict
      await refused('token-consumed', scheduler.claim(task.target('claim-second'), token));
      await Promise.all([send('message-2', 'while it runs'), send('message-3', 'side by side')]);

      await task.command('mark-read', 'mark-1', { upTo: 2 });
      await task.command('mark-read', 'mark-beyond', { upTo: 99 });
      await task.command('mark-read', 'mark-behind', { upTo: 1 });
      await task.signal('no-such-signal', { key: 'k' });
      await task.signal('message');
      await task.signal('message', null);
      await task.signal('claim', 'x');
      await task.signal('result', [1, 2]);
      await task.signal('cancel', { key: 'not a key', fingerprint: 'f', reason: null });
      await task.signal('result', { key: 'k', fingerprint: 'f', success: 'yes' });
      await send('message-1', 'before the release'); // its body is gone, its verdict is not

      const fence = { success: true, claimId: 'claim-forged' };
      await refused('claim-mismatch', scheduler.recordResult(task.target('result-fenced'), fence));
      const unseen = { success: true, ifMailboxSeq: 1 };
      await refused('unread-messages', scheduler.recordResult(task.target('result-unseen'), unseen));
      await task.succeed();
    },
  },

  'continued-as-new': {
    // The publish is under way, waiting for its next attempt, when the run ends.
    policy: { ...POLICY, publish: { ...POLICY.publish, initialSeconds: 300 }, continueAsNewAfterSignals: 3 },
    drive: async (task) => {
      const answers = [503, 202];
      task.inbox.answerWith(() => Promise.resolve(answers.shift() ?? 202));
      await task.schedule();
      await task.inbox.next(task.taskId);
      const { runId } = await task.handle.describe();
      await task.scheduler.sendMessage(task.target('message-1'), { body: 1 });
      await task.scheduler.sendMessage(task.target('message-2'), { body: 2 });
      await task.scheduler.sendMessage(task.target('message-3'), { body: 3 });
      const event = await task.published(2);
      await task.scheduler.sendMessage(task.target('message-1'), { body: 1 }); // decided by the run before
      await task.claim(event);
      await task.succeed();
      return [runId];
    },
  },
};

const NAMES = Object.keys(RECORDERS) as RecorderName[];

/** Of a recorder's fixtures, in the order of their runs. */
function fixturesOf(name: RecorderName): FixtureName[] {
  return name === 'continued-as-new' ? ['continued-as-new-1', 'continued-as-new-2'] : [name];
}

/** Drives the Task, and returns the contents of its fixtures' files. */
async function record(name: RecorderName, ground: Ground): Promise<Map<FixtureName, string>> {
  const { policy = POLICY, drive } = RECORDERS[name];
  ground.inbox.answerWith(202);
  const task = new Subject(name, policy, ground);
  const earlierRuns = (await drive(task, ground)) ?? [];
  await task.handle.result();
  const runs = [...earlierRuns.map((id) => ground.client.workflow.getHandle(task.handle.workflowId, id)), task.handle];
  const files = new Map<FixtureName, string>();
  for (const [index, fixture] of fixturesOf(name).entries()) {
    const history = await runs[index]?.fetchHistory();
    if (history === undefined) throw new Error(`${fixture}: there was no such run`);
    const json = scrub(JSON.parse(historyToJSON(history)));
    assertNamesNoMachine(fixture, json);
    const { end } = decisionsOf(historyOf(json));
    if (end !== FIXTURES[fixture]) throw new Error(`${fixture} ended as ${end}`);
    files.set(fixture, `${JSON.stringify(json, null, 2)}\n`);
    tell(`${fixture}: ${history.events?.length ?? 0} events, ends ${end}`);
  }
  return files;
}

/** A field that `scrub` does not know of yet must not get into the repository unseen. */
function assertNamesNoMachine(fixture: string, json: unknown): void {
  const text = readableTextOf(json);
  const names = [`@${hostname()}`, `${process.pid}@`, homedir(), process.cwd()];
  const traces = names.filter((name) => name.length > 1 && text.includes(name));
  if (traces.length > 0) throw new Error(`${fixture} names this machine: ${traces.join(', ')}`);
}

async function refused(code: ErrorCode, call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === code) return;
    throw error;
  }
  throw new Error(`accepted, though ${code} was expected`);
}

async function within<Value>(what: string, look: () => Promise<Value | null>): Promise<Value> {
  const end = Date.now() + UNTIL_MS;
  for (;;) {
    const value = await look();
    if (value !== null) return value;
    if (Date.now() > end) throw new Error(`${what} did not come`);
    await delay(UNTIL_ROUND_MS);
  }
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** What is to be recorded: the names given, or all; without `force` only what has no file yet. */
async function choose(given: string[], force: boolean): Promise<RecorderName[]> {
  const unknown = given.filter((name) => !(NAMES as string[]).includes(name));
  if (unknown.length > 0) {
    process.stderr.write(`No such fixture: ${unknown.join(', ')}. There are: ${NAMES.join(', ')}\n`);
    process.exitCode = 2;
    return [];
  }
  const chosen: RecorderName[] = [];
  for (const name of NAMES) {
    if (given.length > 0 && !given.includes(name)) continue;
    const present = await Promise.all(fixturesOf(name).map((fixture) => exists(pathOf(fixture))));
    if (force || !present.includes(true)) chosen.push(name);
    else tell(`${name}: is there already, kept (--force records it anew)`);
  }
  return chosen;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    options: { force: { type: 'boolean', default: false } },
    allowPositionals: true,
  });
  const chosen = await choose(positionals, values.force);
  if (chosen.length === 0) return;

  const log = pino({ level: 'error' }, pino.destination({ dest: 2, sync: true }));
  const undo: (() => Promise<unknown>)[] = [];
  try {
    const dataDir = await mkdtemp(path.join(tmpdir(), 'holdfast-record-'));
    undo.push(() => rm(dataDir, { recursive: true, force: true }));
    const temporal = await startEmbeddedTemporal({ dataDir, port: 0, uiPort: 0, log });
    undo.push(() => temporal.close());
    const server = { namespace: temporal.namespace, options: { address: temporal.address } };
    const connection = await connectClient(server);
    undo.push(() => connection.close());
    await ensureSearchAttributes(connection, server.namespace, log);
    const inbox = await startReadyInbox();
    undo.push(() => inbox.close());
    const route = { transport: 'webhook', url: inbox.url, secret: null, allowPrivate: true } as const;
    const transports = createTransports({ routes: { default: route } });
    undo.push(() => transports.close());
    installRuntime(log);
    const native = await connectWorker(server);
    undo.push(() => native.close());
    const client = clientOf(connection, server);
    const gateway = new Gateway({ client, taskQueue: TASK_QUEUE });

    let working = false;
    const ground: Ground = {
      client,
      gateway,
      inbox,
      startWorkers: async () => {
        if (working) return;
        working = true;
        const publicUrl = 'http://127.0.0.1:1';
        const workers = await startWorkers({
          connection: native,
          namespace: server.namespace,
          taskQueue: TASK_QUEUE,
          deliveryTaskQueue: POLICY.deliveryTaskQueue,
          activities: createActivities({ transports, publicUrl, log, concurrencyPerCustomer: 8 }),
          publishConcurrency: 8,
        });
        undo.push(() => workers.stop());
      },
    };

    await mkdir(HISTORIES_DIR, { recursive: true });
    for (const name of chosen) {
      if (name !== 'commands-before-start') await ground.startWorkers();
      const files = await record(name, ground);
      for (const [fixture, text] of files) await writeFile(pathOf(fixture), text);
    }
  } finally {
    for (const step of undo.toReversed()) {
      await step().catch((error: unknown) => log.error({ err: error }, 'a part did not stop in order'));
    }
  }
}

await main();
