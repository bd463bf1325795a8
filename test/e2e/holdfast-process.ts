import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import { listProcesses } from '../../src/temporal/processes.ts';
import { freePort } from '../support/free-port.ts';

const START_MS = 60_000;
const POLL_MS = 100;

/** A folder of its own with a configuration whose only route leads to `readyUrl`, and ports that stay the same. */
export interface Home {
  env: Record<string, string>;
  apiUrl: string;
  remove(): Promise<void>;
}

export async function makeHome(readyUrl: string): Promise<Home> {
  const dir = await realpath(await mkdtemp(path.join(tmpdir(), 'holdfast-e2e-')));
  const configFile = path.join(dir, 'holdfast.config.json');
  const routes = { default: { transport: 'webhook', url: readyUrl, allowPrivate: true } };
  await writeFile(configFile, JSON.stringify({ routes }));
  const port = await freePort();
  return {
    env: {
      PORT: String(port),
      HOLDFAST_TEMPORAL_PORT: '0',
      HOLDFAST_UI_PORT: '0',
      HOLDFAST_DATA_DIR: path.join(dir, 'data'),
      HOLDFAST_CONFIG: configFile,
    },
    apiUrl: `http://127.0.0.1:${port}`,
    remove: () => rm(dir, { recursive: true, force: true, maxRetries: 3 }),
  };
}

export interface HoldfastProcess {
  child: ChildProcess;
  /** Everything that it wrote so far. */
  output(): string;
  /** Waits until the worker polls and the API says that it is ready. */
  ready(): Promise<void>;
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** SIGKILL to the process and to the Temporal server that it started. */
  killEverything(): Promise<void>;
  serverPids(): Promise<number[]>;
}

/** What `npm start` runs. */
export function startMain(env: Record<string, string>, apiUrl: string): HoldfastProcess {
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/main.ts'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  const serverPids = async (): Promise<number[]> =>
    (await listProcesses()).filter(({ args }) => args[0] === `holdfast-temporal-of-${child.pid}`).map(({ pid }) => pid);
  return {
    child,
    output: () => output,
    exited,
    serverPids,
    ready: async () => {
      const until = Date.now() + START_MS;
      while (!(output.includes('worker polling') && (await statusOf(`${apiUrl}/readyz`)) === 200)) {
        if (child.exitCode !== null || Date.now() > until) throw new Error(`Holdfast did not start:\n${output}`);
        await new Promise((resolve) => {
          setTimeout(resolve, POLL_MS);
        });
      }
    },
    killEverything: async () => {
      const servers = await serverPids();
      child.kill('SIGKILL');
      for (const pid of servers) process.kill(pid, 'SIGKILL');
      await exited;
    },
  };
}

export interface Answer {
  status: number;
  body: Record<string, unknown>;
}

/** One call; GET without a body. */
export async function call(url: string, body?: unknown): Promise<Answer> {
  const response = await request(
    url,
    body === undefined
      ? { method: 'GET' }
      : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) },
  );
  return { status: response.statusCode, body: (await response.body.json()) as Record<string, unknown> };
}

async function statusOf(url: string): Promise<number> {
  return call(url).then(
    ({ status }) => status,
    () => 0,
  );
}
