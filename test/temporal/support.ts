import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Connection } from '@temporalio/client';
import { expect, inject, onTestFinished } from 'vitest';
import { processIdentity } from '../../src/temporal/processes.ts';
import {
  LOOPBACK_CHANNEL_ARGS,
  startEmbeddedTemporal,
  type EmbeddedTemporal,
  type EmbeddedTemporalOptions,
} from '../../src/temporal/embedded.ts';
import { silentLog } from '../support/silent-log.ts';

/** A temporary folder that goes with the test. */
export async function temporaryDir(): Promise<string> {
  const dir = await mkdtemp(path.join(inject('temporaryRoot'), 'test-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** An embedded server on free ports that ends with the test. */
export async function startServer(
  options: Partial<EmbeddedTemporalOptions> & { dataDir: string },
): Promise<EmbeddedTemporal> {
  const temporal = await startEmbeddedTemporal({ port: 0, uiPort: 0, log: silentLog, ...options });
  onTestFinished(() => temporal.close());
  return temporal;
}

export async function connect(address: string): Promise<Connection> {
  const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL_ARGS });
  onTestFinished(() => connection.close());
  return connection;
}

export interface Holder {
  readonly pid: number;
  readonly serverPid: number;
  readonly address: string;
  /** The next line that the program tells. */
  nextLine(): Promise<unknown>;
  /** SIGKILL, and until it is gone. */
  kill(): Promise<void>;
}

/** Starts `hold-embedded.ts` in a process group of its own, as a terminal does. */
export async function startHolder(dataDir: string, env: NodeJS.ProcessEnv = {}): Promise<Holder> {
  const program = fileURLToPath(new URL('hold-embedded.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', program, dataDir], {
    env: { ...process.env, ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => endProcess(child));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<unknown> => {
    const line = await lines.next();
    if (line.done === true) throw new Error('the program ended');
    return JSON.parse(line.value);
  };
  const up = (await nextLine()) as { address: string; serverPid: number };
  onTestFinished(() => kill(up.serverPid));
  return { pid: child.pid ?? 0, ...up, nextLine, kill: () => endProcess(child) };
}

/** SIGKILL to one process, and until it is gone. */
export async function kill(pid: number): Promise<void> {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    return; // gone already
  }
  await untilGone(pid);
}

export async function untilGone(pid: number): Promise<void> {
  await expect.poll(() => processIdentity(pid), { interval: 20, timeout: 20_000 }).toBeUndefined();
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

/** A port that somebody listens on until the test ends. */
export async function takenPort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    await once(server, 'close');
  });
  return (server.address() as AddressInfo).port;
}
