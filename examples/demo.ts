/**
 * `npm run demo [-- [--keep] FILE]`: Holdfast in one process, an executor, and the Tasks of a file. Exits 0 only if
 * every Task ended as the file says, as read from Temporal itself at the end. `--keep` stays up afterwards, so that the
 * links to the Web UI can be followed.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Agent, interceptors, request } from 'undici';
import { z } from 'zod';
import { loadConfig } from '../src/config/index.ts';
import { scheduleBody } from '../src/contracts/api.ts';
import { isTerminalStatus, TASK_STATUSES, type TaskRecord, type TaskView } from '../src/contracts/task.ts';
import { createLog, nextSignal, reportStartError } from '../src/process.ts';
import { startHoldfast, type Running } from '../src/run.ts';
import { workflowIdOf } from '../src/scheduler/identity.ts';
import { clientOf, connectClient } from '../src/temporal/connection.ts';
import { startExecutor, type Executor, type Outcome } from './executor.ts';

const ROUND_MS = 250;
/** Every Task of the file must have ended by then. */
const TOTAL_MS = 120_000;

const demoFile = z.strictObject({
  tasks: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[a-z][a-z-]{0,40}$/),
        /** Name of an earlier Task. */
        parent: z.string().optional(),
        schedule: z.unknown(),
        cancelWhen: z.literal('running').optional(),
        expect: z.strictObject({
          status: z.enum(TASK_STATUSES),
          /** What the executor made of the events that it received, in any order. */
          executor: z.array(z.string()).optional(),
        }),
      }),
    )
    .min(1)
    .max(100),
});
type DemoTask = z.output<typeof demoFile>['tasks'][number];

interface Row {
  task: DemoTask;
  taskId: string;
  view: TaskView | null;
  canceled: boolean;
}

const isTerminal = process.stdout.isTTY;
const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

async function main(): Promise<number> {
  const { keep, file } = readArguments();
  const tasks = await readTasks(file);

  // From the first moment on: an interrupted start must not leave a server behind.
  const interrupted = nextSignal().then((): never => {
    throw new DemoError('Interrupted.', 130);
  });
  interrupted.catch(() => undefined);
  const executor = await startExecutor({ log: (line) => (isTerminal ? undefined : say(line)) });
  const twice = await startRepeater(executor.readyUrl);
  const holdfast = await startDemoHoldfast({ executor, twice });
  try {
    const rows = await Promise.race([runAll(tasks, holdfast), interrupted, holdfast.failed]);
    // The executor hears of an end at its next stop check.
    await Promise.race([untilQuiet(rows, executor), interrupted]);
    const wrong = await report(rows, { holdfast, executor });
    if (keep) {
      say('Staying up until Ctrl-C.');
      await interrupted.catch(() => undefined);
    }
    return wrong === 0 ? 0 : 1;
  } finally {
    await executor.close();
    await twice.close();
    await holdfast.stop();
  }
}

/** Ends the demo with a line that says why. */
class DemoError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

function readArguments(): { keep: boolean; file: string } {
  try {
    const { values, positionals } = parseArgs({ allowPositionals: true, options: { keep: { type: 'boolean' } } });
    if (positionals.length > 1) throw new TypeError('one file at most');
    const file = positionals[0] ?? fileURLToPath(new URL('demo.json', import.meta.url));
    return { keep: values.keep ?? false, file };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new DemoError(`${reason}\nusage: npm run demo [-- [--keep] FILE]`, 2);
  }
}

async function readTasks(file: string): Promise<DemoTask[]> {
  try {
    return demoFile.parse(JSON.parse(await readFile(file, 'utf8'))).tasks;
  } catch (error) {
    const reason =
      error instanceof z.ZodError
        ? error.issues.map(({ path: where, message }) => `${where.join('.')}: ${message}`).join('; ')
        : String(error);
    throw new DemoError(`${file} cannot be used: ${reason}`);
  }
}

/** Ports are free ones, and the data has its own folder: the demo stays out of the way of an `npm start` beside it. */
async function startDemoHoldfast({
  executor,
  twice,
}: {
  executor: Executor;
  twice: Repeater;
}): Promise<Running & { apiUrl: string }> {
  const dataDir = path.resolve(process.env['HOLDFAST_DATA_DIR'] ?? '.holdfast', 'demo');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const configFile = path.join(dataDir, 'holdfast.config.json');
  const route = (url: string): object => ({ transport: 'webhook', url, allowPrivate: true });
  await writeFile(
    configFile,
    JSON.stringify({ routes: { default: route(executor.readyUrl), twice: route(twice.url) } }, null, 2),
  );
  const env = {
    PORT: '0',
    HOLDFAST_TEMPORAL_PORT: '0',
    HOLDFAST_UI_PORT: '0',
    LOG_LEVEL: 'error',
    ...process.env,
    HOLDFAST_DATA_DIR: dataDir,
    HOLDFAST_CONFIG: configFile,
  };
  const config = loadConfig({ env, cwd: process.cwd() });
  say('Starting Temporal, worker and API (the first start fetches the Temporal server)…');
  const running = await startHoldfast({
    config,
    parts: { embedded: true, worker: true, api: true },
    log: createLog(config.logLevel),
  });
  if (running.apiUrl === null) throw new Error('the API did not start');
  say(`API ${running.apiUrl} · Temporal Web UI ${running.uiUrl ?? 'of the given cluster'}`);
  return { ...running, apiUrl: running.apiUrl };
}

interface Repeater {
  url: string;
  close(): Promise<void>;
}

/** Delivers each event twice, as any transport may at any time. */
async function startRepeater(target: string): Promise<Repeater> {
  const server = createServer((received, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of received) chunks.push(chunk as Buffer);
      const headers = { 'Content-Type': received.headers['content-type'] ?? '' };
      const send = async (): Promise<number> => {
        const answer = await request(target, { method: 'POST', headers, body: Buffer.concat(chunks) });
        await answer.body.dump();
        return answer.statusCode;
      };
      const [first] = await Promise.all([send(), send()]);
      response.writeHead(first).end();
    })().catch(() => response.writeHead(502).end());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/ready`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** Schedules all Tasks, and follows them until each has ended or the time is up. */
async function runAll(tasks: DemoTask[], { apiUrl }: { apiUrl: string }): Promise<Row[]> {
  const suffix = Date.now().toString(36);
  const rows: Row[] = [];
  for (const task of tasks) {
    const taskId = `${task.name}-${suffix}`;
    const parent = task.parent === undefined ? {} : { parentTaskId: `${task.parent}-${suffix}` };
    const body = scheduleBody.parse({ ...(task.schedule as object), taskId, ...parent });
    const view = await api<TaskView>(`${apiUrl}/v1/tasks`, body);
    rows.push({ task, taskId, view, canceled: false });
  }
  const until = Date.now() + TOTAL_MS;
  const show = liveTable();
  show(rows);
  while (Date.now() < until && rows.some(({ view }) => view === null || !isTerminalStatus(view.status))) {
    await delay(ROUND_MS);
    for (const row of rows) {
      if (row.view !== null && isTerminalStatus(row.view.status)) continue;
      row.view = await api<TaskView>(`${apiUrl}/v1/tasks/${row.taskId}`);
      if (row.task.cancelWhen === row.view.status && !row.canceled) {
        row.canceled = true;
        await api(`${apiUrl}/v1/tasks/${row.taskId}/cancel`, { reason: 'the demo file says so' });
      }
    }
    show(rows);
  }
  return rows;
}

/** Waits until the executor has told the outcome of every event that the file expects, within a bound. */
async function untilQuiet(rows: Row[], executor: Executor): Promise<void> {
  const until = Date.now() + 15_000;
  const missing = (row: Row): boolean => outcomesOf(row, executor).length < (row.task.expect.executor?.length ?? 0);
  while (Date.now() < until && rows.some(missing)) await delay(ROUND_MS);
}

function outcomesOf({ taskId }: Row, executor: Executor): Outcome[] {
  return executor.outcomes.filter((each) => each.taskId === taskId).map(({ outcome }) => outcome);
}

/** Reads each Task from Temporal, beside the API and its processes, and compares. Returns how many are wrong. */
async function report(rows: Row[], { holdfast, executor }: { holdfast: Running; executor: Executor }): Promise<number> {
  const connection = await connectClient(holdfast.temporal);
  const client = clientOf(connection, holdfast.temporal);
  let wrong = 0;
  say(`\n${'Task'.padEnd(28)}${'expected'.padEnd(12)}${'in Temporal'.padEnd(13)}${'executor'.padEnd(26)}`);
  for (const row of rows) {
    const workflowId = workflowIdOf('local', row.taskId);
    const expected = row.task.expect;
    const ended = row.view !== null && isTerminalStatus(row.view.status);
    // The workflow's result is the Task's record; one that has not ended would be waited for.
    const status = ended
      ? await connection.withDeadline(Date.now() + 10_000, async () => {
          const record = (await client.workflow.getHandle(workflowId).result()) as TaskRecord;
          return record.phase.status;
        })
      : (row.view?.status ?? 'unknown');
    const outcomes = outcomesOf(row, executor).toSorted();
    const isRight =
      status === expected.status && (expected.executor === undefined || isExpected(outcomes, expected.executor));
    if (!isRight) wrong += 1;
    const mark = isRight ? 'as expected' : `WRONG${expected.executor ? `, executor: ${expected.executor.join()}` : ''}`;
    say(
      `${row.taskId.padEnd(28)}${expected.status.padEnd(12)}${status.padEnd(13)}${outcomes.join().padEnd(26)}${mark}`,
    );
    if (holdfast.uiUrl !== null) {
      say(`  ${holdfast.uiUrl}/namespaces/${holdfast.temporal.namespace}/workflows/${encodeURIComponent(workflowId)}`);
    }
  }
  await connection.close();
  say(
    wrong === 0 ? '\nAll Tasks ended as the file says.' : `\n${wrong} of ${rows.length} did not end as the file says.`,
  );
  return wrong;
}

/** Delivery is at least once: beyond what is expected an event may have come again, and been refused. */
function isExpected(outcomes: Outcome[], expected: string[]): boolean {
  const others: string[] = [...outcomes];
  for (const each of expected) {
    const found = others.indexOf(each);
    if (found === -1) return false;
    others.splice(found, 1);
  }
  return others.every((each) => each === 'claim-refused');
}

/** On a terminal a table that is drawn over; elsewhere a line for each change. */
function liveTable(): (rows: Row[]) => void {
  const shown = new Map<string, string>();
  let drawn = 0;
  return (rows) => {
    if (isTerminal) {
      const lines = rows.map(({ taskId, view }) => `${taskId.padEnd(28)}${view?.status ?? ''}`);
      process.stdout.write(
        `${drawn > 0 ? `\u001b[${drawn}A` : ''}${lines.map((line) => `\u001b[2K${line}\n`).join('')}`,
      );
      drawn = lines.length;
      return;
    }
    for (const { taskId, view } of rows) {
      const status = view?.status ?? 'unknown';
      if (shown.get(taskId) !== status) say(`${new Date().toISOString()} ${taskId.padEnd(28)} ${status}`);
      shown.set(taskId, status);
    }
  };
}

/** Repeats what is not served for the moment, as docs/api.md says: with the same key, for half a minute at most. */
const dispatcher = new Agent().compose(
  interceptors.retry({
    maxRetries: 15,
    minTimeout: 100,
    maxTimeout: 2_000,
    methods: ['GET', 'POST'],
    statusCodes: [503],
  }),
);

/** One call of the API; anything but success ends the demo. */
async function api<Answer = unknown>(url: string, body?: unknown): Promise<Answer> {
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': randomUUID() };
  const response = await request(
    url,
    body === undefined
      ? { dispatcher, method: 'GET' }
      : { dispatcher, method: 'POST', headers, body: JSON.stringify(body) },
  );
  const answer: unknown = await response.body.json();
  if (response.statusCode >= 300) throw new Error(`${url}: ${response.statusCode} ${JSON.stringify(answer)}`);
  return answer as Answer;
}

process.exitCode = await main().catch((error: unknown) => {
  if (!(error instanceof DemoError)) {
    reportStartError(error);
    return 1;
  }
  process.stderr.write(`${error.message}\n`);
  return error.exitCode;
});
// Nothing is under way any more; idle keep-alive connections must not hold the process.
process.exit();
