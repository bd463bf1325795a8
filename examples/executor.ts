/**
 * An example executor: a service outside Holdfast that does real work. It receives `task.ready`, claims with the event's
 * id, runs the command that the Task's input names, asks between times whether to stop, and reports what it observed.
 *
 * A Task names a command, it never brings one: what may run here is the executor's own list.
 */
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { Agent, interceptors, request, type Dispatcher } from 'undici';

/** What a Task's input may name, as `{"run": "node-version"}`. */
const ALLOWED = {
  'node-version': ['node', '--version'],
  'git-revision': ['git', 'rev-parse', 'HEAD'],
  'type-check': ['node', 'node_modules/typescript/bin/tsc', '--noEmit'],
  'missing-script': ['node', 'examples/there-is-no-such-script.js'],
  'wait-a-minute': ['node', '--eval', 'setTimeout(() => {}, 60000)'],
} as const satisfies Record<string, readonly [string, ...string[]]>;

const STOP_CHECK_MS = 500;
const OUTPUT_CHARACTERS_MAX = 4_000;
const EVENT_BYTES_MAX = 20_000;
const RUNS_MAX = 16;

/** What became of one received event; the demo shows it. */
export type Outcome =
  | 'claim-refused'
  | 'reported'
  /** The stop check said stop, or the Task had ended when the result came: the work was dropped. */
  | 'stopped'
  | 'result-refused'
  | 'failed';

export interface Executor {
  /** Where `task.ready` is to be posted. */
  readyUrl: string;
  outcomes: { taskId: string; outcome: Outcome }[];
  close(): Promise<void>;
}

export async function startExecutor({
  log,
  port = 0,
}: {
  log: (line: string) => void;
  port?: number;
}): Promise<Executor> {
  // A call that is repeated with its key is decided once: so every call may be repeated, for about two minutes.
  const agent = new Agent({ headersTimeout: 15_000, bodyTimeout: 15_000, connectTimeout: 5_000 });
  const dispatcher = agent.compose(
    interceptors.retry({
      maxRetries: 60,
      minTimeout: 100,
      maxTimeout: 2_000,
      methods: ['GET', 'POST'],
      statusCodes: [500, 502, 503, 504],
    }),
  );
  const outcomes: Executor['outcomes'] = [];
  const running = new Map<Promise<void>, AbortController>();

  const server = createServer((received, response) => {
    void (async () => {
      const event = await readEvent(received);
      if (event === null) return response.writeHead(400).end();
      // Refused, not dropped: Holdfast repeats it.
      if (running.size >= RUNS_MAX) return response.writeHead(503, { 'Retry-After': '1' }).end();
      const stop = new AbortController();
      const handled = handle(event, dispatcher, stop.signal)
        .catch((error: unknown): Outcome => {
          log(`executor: ${event.data.taskId}: ${String(error)}`);
          return 'failed';
        })
        .then((outcome) => {
          outcomes.push({ taskId: event.data.taskId, outcome });
          log(`executor: ${event.data.taskId}: ${outcome}`);
          running.delete(handled);
        });
      running.set(handled, stop);
      // This says that the event was received. What proves it is the claim.
      return response.writeHead(202).end();
    })();
  });
  await new Promise<void>((resolve) => {
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return {
    readyUrl: `http://127.0.0.1:${bound}/ready`,
    outcomes,
    close: async () => {
      for (const stop of running.values()) stop.abort();
      await Promise.all(running.keys());
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
      await agent.close();
    },
  };
}

interface ReadyEvent {
  id: string;
  data: { taskId: string; claimUrl: string };
}

async function handle(event: ReadyEvent, dispatcher: Dispatcher, closing: AbortSignal): Promise<Outcome> {
  const { claimUrl } = event.data;
  const taskUrl = claimUrl.slice(0, claimUrl.lastIndexOf('/'));
  const post = async (path: string, body: unknown): Promise<Answer> =>
    call(dispatcher, `${taskUrl}${path}`, { method: 'POST', body, signal: closing });

  const claim = await post('/claim', { deliveryEventId: event.id, executorId: 'example' });
  if (claim.status !== 200) return 'claim-refused';

  const stop = new AbortController();
  const watch = watchStop(`${taskUrl}/stop`, { dispatcher, stop, closing });
  const observed = await runNamed(claim.body['input'], AbortSignal.any([stop.signal, closing])).finally(() =>
    watch.end(),
  );
  if (stop.signal.aborted || closing.aborted) return 'stopped';
  const result = await post('/result', { ...observed, claimId: claim.body['claimId'] });
  if (result.status === 200) return 'reported';
  return result.body['code'] === 'task-terminal' ? 'stopped' : 'result-refused';

  function watchStop(
    url: string,
    options: { dispatcher: Dispatcher; stop: AbortController; closing: AbortSignal },
  ): { end: () => void } {
    let asking = false;
    const timer = setInterval(() => {
      if (asking) return;
      asking = true;
      call(options.dispatcher, url, { method: 'GET', signal: options.closing })
        .then((answer) => {
          if (answer.body['shouldStop'] === true) options.stop.abort();
        })
        // A check that failed says nothing: the work goes on.
        .catch(() => {})
        .finally(() => {
          asking = false;
        });
    }, STOP_CHECK_MS);
    return { end: () => clearInterval(timer) };
  }
}

/** Runs what the input names, and gives the evidence that a claim of "it passed" asks for. */
async function runNamed(input: unknown, signal: AbortSignal): Promise<Record<string, unknown>> {
  const name = typeof input === 'object' && input !== null && 'run' in input ? String(input.run) : '';
  if (!Object.hasOwn(ALLOWED, name)) return { success: false, summary: 'not on the list', error: { run: name } };
  const [command, ...args] = ALLOWED[name as keyof typeof ALLOWED];
  const revision = await revisionHere();
  const startedAt = new Date().toISOString();
  const { exitCode, output } = await run(command, args, signal);
  const evidence = {
    command: [command, ...args].join(' '),
    revision,
    environment: { node: process.version, platform: process.platform, arch: process.arch },
    startedAt,
    endedAt: new Date().toISOString(),
    exitCode,
    observed: output,
  };
  const success = exitCode === 0;
  const summary = `${evidence.command}: exit ${exitCode}`;
  return success ? { success, summary, output: evidence } : { success, summary, output: evidence, error: summary };
}

async function run(
  command: string,
  args: string[],
  signal: AbortSignal,
): Promise<{ exitCode: number; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' });
    let output = '';
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-OUTPUT_CHARACTERS_MAX);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.once('error', (error) => {
      if (error.name !== 'AbortError') resolve({ exitCode: -1, output: error.message });
    });
    child.once('close', (code) => resolve({ exitCode: code ?? -1, output: output.trim() }));
  });
}

async function revisionHere(): Promise<string> {
  return promisify(execFile)('git', ['rev-parse', 'HEAD']).then(
    ({ stdout }) => stdout.trim(),
    () => 'unknown: not in a git checkout',
  );
}

interface Answer {
  status: number;
  body: Record<string, unknown>;
}

async function call(
  dispatcher: Dispatcher,
  url: string,
  { method, body, signal }: { method: 'GET' | 'POST'; body?: unknown; signal: AbortSignal },
): Promise<Answer> {
  const response = await request(url, {
    dispatcher,
    method,
    signal,
    // One key for this call and all its repeats.
    ...(method === 'GET'
      ? {}
      : {
          headers: { 'Content-Type': 'application/json', 'Idempotency-Key': randomUUID() },
          body: JSON.stringify(body),
        }),
  });
  return { status: response.statusCode, body: (await response.body.json()) as Record<string, unknown> };
}

async function readEvent(received: IncomingMessage): Promise<ReadyEvent | null> {
  try {
    let text = '';
    for await (const chunk of received) {
      text += String(chunk);
      if (text.length > EVENT_BYTES_MAX) return null;
    }
    const event = JSON.parse(text) as Partial<ReadyEvent>;
    const { taskId, claimUrl } = event.data ?? {};
    if (typeof event.id !== 'string' || typeof taskId !== 'string' || typeof claimUrl !== 'string') return null;
    return { id: event.id, data: { taskId, claimUrl } };
  } catch {
    return null;
  }
}
