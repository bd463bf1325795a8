import { spawn, type ChildProcess } from 'node:child_process';
import { open, writeFile, type FileHandle } from 'node:fs/promises';
import { createServer, Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { msToNumber, msToTs, tsToMs } from '@temporalio/common/lib/time.js';
import { takeDataDir } from './data-dir.ts';
import { listProcesses, processIdentity, stopProcess, type ListedProcess } from './processes.ts';
import { findTemporalServer, type FindBinaryOptions, type Log } from './server-binary.ts';
import { HoldfastStartError } from './start-error.ts';

const HOST = '127.0.0.1';
const NAMESPACE = 'default'; // the development server makes it itself
/** For connections to the embedded server: gRPC would send even loopback calls to the proxy that the environment names. */
export const LOOPBACK_CHANNEL_ARGS = { 'grpc.enable_http_proxy': 0 } as const;
/** The database's name in the data folder. */
export const DATABASE_FILE = 'temporal.db';
const LOG_FILE = 'temporal.log';
const LOG_BYTES_MAX = 8_388_608;
const LOG_CHECK_MS = 30_000;
const LOG_TAIL_BYTES = 8_192;
const LOG_TAIL_LINES = 20;
const PORT_ATTEMPTS = 3;
const ORPHAN_GRACE_MS = 15_000;
const RETENTION_MS = msToNumber('30 days');

/** What every server that Holdfast starts is told; docs/embedded.md says why. */
export const DYNAMIC_CONFIG = {
  'matching.enableFairness': true,
  'history.maximumSignalsPerExecution': 3000,
  'history.MaxBufferedQueryCount': 100,
} as const satisfies Readonly<Record<string, boolean | number>>;

export interface EmbeddedTemporalOptions {
  /** The folder of the database, the server's log and the lock; made where it is missing. */
  readonly dataDir: string;
  /** The port of Temporal's gRPC API; 0 takes a free one. */
  readonly port: number;
  /** The port of Temporal's Web UI; 0 takes a free one. */
  readonly uiPort: number;
  readonly log: Log;
  /** How long the server may take from its spawn until it answers. */
  readonly startTimeoutMs?: number;
  /** How long `close` waits after SIGTERM before it kills. */
  readonly closeTimeoutMs?: number;
  /** Dynamic configuration besides `DYNAMIC_CONFIG`, or instead of parts of it. */
  readonly dynamicConfig?: Readonly<Record<string, boolean | number | string>>;
  /** How the server's binary is looked for. */
  readonly binary?: Omit<FindBinaryOptions, 'log'>;
}

/** How the server ended. */
interface ServerExit {
  /** Whether `close` ended it. If not, nothing works any more, and the lines say what the server had to tell. */
  readonly expected: boolean;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly lastLogLines: string;
}

export interface EmbeddedTemporal {
  /** Host and port of the gRPC API. */
  readonly address: string;
  readonly uiUrl: string;
  readonly namespace: string;
  readonly pid: number;
  /** The server's binary, as it told its version. */
  readonly serverVersion: string;
  /** The retention in force: at least 30 days, more where an operator raised it. */
  readonly retentionMs: number;
  /** Resolves when the server's process has ended, by `close` or on its own. Never rejects. */
  readonly exited: Promise<ServerExit>;
  /** Stops the server (SIGTERM, after a bound SIGKILL) and gives the data folder free. May be called again. */
  close(): Promise<void>;
}

/**
 * Starts a Temporal development server on a SQLite file in `dataDir` and waits until it answers. Whatever was
 * acknowledged survives a SIGKILL of everything. Throws `HoldfastStartError`, having undone what it began.
 */
export async function startEmbeddedTemporal(options: EmbeddedTemporalOptions): Promise<EmbeddedTemporal> {
  checkPortNumbers(options);
  const dataDir = await takeDataDir(options.dataDir);
  try {
    const binary = await findTemporalServer({ ...options.binary, log: options.log });
    const database = path.join(dataDir.path, DATABASE_FILE);
    // Before the ports are tried: an orphan holds them.
    await stopOrphans(database, options.log);

    for (let attempt = 1; ; attempt += 1) {
      const [port, uiPort] = await choosePorts(options);
      const server = await spawnServer({ ...options, binary: binary.path, dataDir: dataDir.path, port, uiPort });
      try {
        const retentionMs = await server.ready(options.startTimeoutMs ?? 60_000);
        const address = `${HOST}:${port}`;
        options.log.info({ address, uiPort, pid: server.pid, retentionDays: days(retentionMs) }, 'Temporal is up');
        return {
          address,
          uiUrl: `http://${HOST}:${uiPort}`,
          namespace: NAMESPACE,
          pid: server.pid,
          serverVersion: binary.version,
          retentionMs,
          exited: server.exited,
          close: async () => {
            await server.stop();
            await dataDir.release();
          },
        };
      } catch (error) {
        await server.stop();
        // A free port, ours or one of those that the server takes for itself, can be lost to another process before
        // the server binds it, and the server says so in several ways. A fixed one that was lost is reported by the next
        // round's choice.
        if (!(error instanceof ServerExitedError) || attempt === PORT_ATTEMPTS) throw error;
      }
    }
  } catch (error) {
    await dataDir.release();
    throw error;
  }
}

/** The server ended while it started. */
class ServerExitedError extends HoldfastStartError {
  constructor(message: string) {
    super('server-exited', message);
  }
}

// --- Ports

const PORT_VARIABLES = { port: 'HOLDFAST_TEMPORAL_PORT', uiPort: 'HOLDFAST_UI_PORT' } as const;

function checkPortNumbers(options: EmbeddedTemporalOptions): void {
  for (const name of ['port', 'uiPort'] as const) {
    const port = options[name];
    if (!Number.isInteger(port) || port < 0 || port > 65_535) {
      throw new HoldfastStartError('port-not-allowed', `${PORT_VARIABLES[name]} is ${port}, which is no port.`);
    }
  }
  if (options.port !== 0 && options.port === options.uiPort) {
    throw new HoldfastStartError(
      'port-in-use',
      `HOLDFAST_TEMPORAL_PORT and HOLDFAST_UI_PORT are both ${options.port}; they must differ.`,
    );
  }
}

/** Both ports are held until both are known, so that the two cannot be the same. */
async function choosePorts(options: EmbeddedTemporalOptions): Promise<[port: number, uiPort: number]> {
  const first = await holdPort('port', options.port);
  try {
    const second = await holdPort('uiPort', options.uiPort);
    await second.free();
    return [first.port, second.port];
  } finally {
    await first.free();
  }
}

async function holdPort(
  name: keyof typeof PORT_VARIABLES,
  wanted: number,
): Promise<{ port: number; free: () => Promise<void> }> {
  const server = createServer();
  const port = await new Promise<number>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const variable = PORT_VARIABLES[name];
      const what = name === 'port' ? 'for Temporal' : "for Temporal's Web UI";
      const refusal =
        error.code === 'EADDRINUSE'
          ? new HoldfastStartError(
              'port-in-use',
              `Port ${wanted} (${what}) is taken by another program. Stop it, or set ${variable} to another port ` +
                '(0: a free one).',
            )
          : new HoldfastStartError(
              'port-not-allowed',
              `Port ${wanted} (${what}, ${variable}) cannot be opened: ${error.message}`,
              { cause: error },
            );
      reject(refusal);
    });
    server.listen({ host: HOST, port: wanted, exclusive: true }, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : wanted);
    });
  });
  const free = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => {
        resolve();
      });
    });
  return { port, free };
}

// --- Orphans of a Holdfast that was killed

/** The name under which the server runs: by it a later start knows that the process is Holdfast's, and whose child. */
const NAME = 'holdfast-temporal-of-';

/**
 * The caller holds the folder's lock, so no live Holdfast should be using the database. Ours, its parent gone: stopped.
 * Anything else that has the database open by name is somebody's: refused, never touched.
 */
export async function stopOrphans(database: string, log: Log): Promise<void> {
  for (const found of await listProcesses()) {
    if (!namesDatabase(found, database)) continue;
    const identity = await processIdentity(found.pid);
    if (identity === undefined) continue;
    if (!isOrphan(found)) {
      throw new HoldfastStartError(
        'data-dir-in-use',
        `Process ${found.pid} uses the database ${database}, and Holdfast did not leave it behind. Stop it first.`,
      );
    }
    log.warn({ pid: found.pid }, 'stopping the Temporal server that a killed Holdfast left behind');
    if (!(await stopProcess({ pid: found.pid, identity, graceMs: ORPHAN_GRACE_MS }))) {
      throw new HoldfastStartError(
        'data-dir-in-use',
        `Process ${found.pid}, the Temporal server that an earlier Holdfast left behind, does not end. Stop it by hand.`,
      );
    }
  }
}

function namesDatabase(found: ListedProcess, database: string): boolean {
  // As Holdfast writes it, also where the arguments come split at blanks; then as a person may write it.
  return (
    found.commandLine.includes(`--db-filename ${database} --`) ||
    found.args.some((arg, index) => {
      const [flag, value = found.args[index + 1]] = arg.split('=', 2);
      return (flag === '--db-filename' || flag === '-f') && value === database;
    })
  );
}

function isOrphan(found: ListedProcess): boolean {
  const name = found.args[0] ?? '';
  // A child whose parent died gets another parent.
  return name.startsWith(NAME) && Number(name.slice(NAME.length)) !== found.parentPid;
}

// --- The server's process

interface Server {
  readonly pid: number;
  readonly exited: Promise<ServerExit>;
  /** Waits until the server answers in full; resolves to the retention in force. */
  ready(timeoutMs: number): Promise<number>;
  stop(): Promise<void>;
}

async function spawnServer(
  options: Omit<EmbeddedTemporalOptions, 'binary'> & { readonly binary: string },
): Promise<Server> {
  const { dataDir, port, uiPort, log } = options;
  const logPath = path.join(dataDir, LOG_FILE);
  await rotateLog(logPath);
  const logFile = await open(logPath, 'a');
  let child: ChildProcess;
  try {
    child = spawn(options.binary, serverArgs(options), {
      argv0: `${NAME}${process.pid}`,
      cwd: dataDir,
      env: serverEnvironment(),
      // A session of its own: the terminal's Ctrl-C reaches Holdfast only, which drains its worker before the server ends.
      detached: true,
      windowsHide: true,
      // The file itself and no pipe: the server must be able to write when Holdfast has been killed.
      stdio: ['ignore', logFile.fd, logFile.fd],
    });
    await spawned(child, options.binary);
  } finally {
    await logFile.close();
  }
  const pid = child.pid ?? 0;

  let phase: 'starting' | 'up' | 'closing' = 'starting';
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve({ code, signal });
    });
  });
  // Holdfast itself ending without `close` (an uncaught exception) must not leave the server behind.
  const onProcessExit = (): void => {
    child.kill('SIGTERM');
  };
  process.once('exit', onProcessExit);
  const capTimer = setInterval(() => {
    rotateLog(logPath, { overBytes: LOG_BYTES_MAX }).catch((error: unknown) => {
      log.warn({ err: error }, "the Temporal server's log could not be capped");
    });
  }, LOG_CHECK_MS).unref();

  const exited = ended.then(async ({ code, signal }): Promise<ServerExit> => {
    clearInterval(capTimer);
    process.off('exit', onProcessExit);
    const lastLogLines = await readTail(logPath);
    // While it starts, the error that is thrown says it.
    if (phase === 'up') log.error({ code, signal, lastLogLines }, 'the Temporal server ended by itself');
    return { expected: phase === 'closing', code, signal, lastLogLines };
  });

  let stopped: Promise<void> | undefined;
  return {
    pid,
    exited,
    ready: async (timeoutMs) => {
      const retentionMs = await untilReady({ timeoutMs, logPath, exited, port, uiPort });
      phase = 'up';
      return retentionMs;
    },
    stop: () => {
      stopped ??= (async () => {
        phase = 'closing';
        child.kill('SIGTERM');
        if (await endsWithin(exited, options.closeTimeoutMs ?? 10_000)) return;
        log.warn({ pid }, 'the Temporal server did not end on SIGTERM: killed');
        child.kill('SIGKILL');
        if (!(await endsWithin(exited, 5_000))) log.error({ pid }, 'the Temporal server did not end on SIGKILL');
      })();
      return stopped;
    },
  };
}

function serverArgs(options: Pick<EmbeddedTemporalOptions, 'dataDir' | 'port' | 'uiPort' | 'dynamicConfig'>): string[] {
  const dynamicConfig = { ...DYNAMIC_CONFIG, ...options.dynamicConfig };
  const flags: readonly (readonly [flag: string, value: string])[] = [
    ['--db-filename', path.join(options.dataDir, DATABASE_FILE)],
    ['--ip', HOST],
    ['--port', String(options.port)],
    ['--ui-port', String(options.uiPort)],
    // WAL is the faster journal; with FULL (2) each commit is synced to the disk before it is acknowledged.
    ['--sqlite-pragma', 'journal_mode=WAL'],
    ['--sqlite-pragma', 'synchronous=2'],
    ...Object.entries(dynamicConfig).map(
      ([key, value]) => ['--dynamic-config-value', `${key}=${JSON.stringify(value)}`] as const,
    ),
    ['--log-level', 'warn'],
    ['--log-format', 'json'],
  ];
  return ['server', 'start-dev', ...flags.flat(), '--ui-disable-news-fetch'];
}

/** The server must not read the settings that a user keeps for the Temporal CLI and SDK. */
function serverEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TEMPORAL_')));
}

function spawned(child: ChildProcess, binary: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve);
    child.on('error', (error) => {
      reject(new ServerExitedError(`The Temporal server ${binary} could not be run: ${error.message}`));
    });
  });
}

interface ReadyContext {
  readonly timeoutMs: number;
  readonly logPath: string;
  readonly exited: Promise<ServerExit>;
  readonly port: number;
  readonly uiPort: number;
}

async function untilReady({ timeoutMs, logPath, exited, port, uiPort }: ReadyContext): Promise<number> {
  const until = performance.now() + timeoutMs;
  const exit = exited.then((ended) => ({ kind: 'exited' as const, ended }));
  for (;;) {
    const leftMs = Math.max(1, until - performance.now());
    const attempt = askServer(port, uiPort, leftMs).then(
      (retentionMs) => ({ kind: 'ready' as const, retentionMs }),
      (error: unknown) => ({ kind: 'not-yet' as const, error }),
    );
    const outcome = await Promise.race([attempt, exit]);
    if (outcome.kind === 'ready') return outcome.retentionMs;
    if (outcome.kind === 'exited') {
      const { code, signal, lastLogLines } = outcome.ended;
      throw new ServerExitedError(
        `The Temporal server ended while it started (${signal ?? `code ${code}`}). Its log ends:\n${lastLogLines}`,
      );
    }
    if (performance.now() >= until) {
      const reason = outcome.error instanceof Error ? outcome.error.message : String(outcome.error);
      throw new HoldfastStartError(
        'server-start-timeout',
        `The Temporal server on port ${port} did not answer within ${timeoutMs} ms: ${reason}. ` +
          `Its log ends:\n${await readTail(logPath)}`,
        { cause: outcome.error },
      );
    }
    await delay(100);
  }
}

/** One try at everything that a running server must answer. Sets the retention, and reads it back. */
async function askServer(port: number, uiPort: number, boundMs: number): Promise<number> {
  await Promise.all([canConnect(port), canConnect(uiPort)]);
  const connection = await Connection.connect({
    address: `${HOST}:${port}`,
    channelArgs: LOOPBACK_CHANNEL_ARGS,
    connectTimeout: Math.min(2_000, boundMs), // it asks getSystemInfo
  });
  try {
    return await connection.withDeadline(Date.now() + Math.min(10_000, boundMs), () => ensureRetention(connection));
  } finally {
    await connection.close();
  }
}

/**
 * The development server makes its namespace with a day of retention and has no flag for it. What was closed before
 * a change keeps its old retention. A longer one than ours was an operator's wish, and stays.
 */
async function ensureRetention(connection: Connection): Promise<number> {
  const read = async (): Promise<number> => {
    const { config } = await connection.workflowService.describeNamespace({ namespace: NAMESPACE });
    return tsToMs(config?.workflowExecutionRetentionTtl);
  };
  const found = await read();
  if (found >= RETENTION_MS) return found;
  await connection.workflowService.updateNamespace({
    namespace: NAMESPACE,
    config: { workflowExecutionRetentionTtl: msToTs(RETENTION_MS) },
  });
  const now = await read();
  if (now < RETENTION_MS) throw new Error(`the namespace kept a retention of ${days(now)} days`);
  return now;
}

function days(ms: number): number {
  return Math.round(ms / 86_400_000);
}

function canConnect(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new Socket();
    socket.setTimeout(2_000, () => socket.destroy(new Error(`port ${port} does not answer`)));
    socket.once('error', reject);
    socket.connect(port, HOST, () => {
      socket.destroy();
      resolve();
    });
  });
}

async function endsWithin(exited: Promise<unknown>, ms: number): Promise<boolean> {
  const abort = new AbortController();
  try {
    return await Promise.race([exited.then(() => true), delay(ms, false, { signal: abort.signal })]);
  } finally {
    abort.abort();
  }
}

// --- The server's log, and in `.1` what came before: LOG_BYTES_MAX each, the current one plus what one interval adds

/**
 * Moves the end of the log to `.1` and empties it, where it holds more than `overBytes`. The server has the file open
 * for appending, so it goes on at the new start; what it writes in the very moment is lost.
 */
export async function rotateLog(
  logPath: string,
  { overBytes = 0, keptBytes = LOG_BYTES_MAX }: { readonly overBytes?: number; readonly keptBytes?: number } = {},
): Promise<void> {
  const file = await open(logPath, 'a+', 0o600);
  try {
    if ((await file.stat()).size <= overBytes) return;
    await writeFile(`${logPath}.1`, await readEnd(file, keptBytes), { mode: 0o600 });
    await file.truncate();
  } finally {
    await file.close();
  }
}

async function readTail(logPath: string): Promise<string> {
  try {
    const file = await open(logPath, 'r');
    try {
      const text = (await readEnd(file, LOG_TAIL_BYTES)).toString();
      const lines = text.trim().split('\n');
      // A panic says why in its first line; the stack below it would push that out.
      const panic = lines.findLastIndex((line) => line.startsWith('panic:'));
      return (panic === -1 ? lines.slice(-LOG_TAIL_LINES) : lines.slice(panic, panic + LOG_TAIL_LINES)).join('\n');
    } finally {
      await file.close();
    }
  } catch {
    return '(no log)';
  }
}

async function readEnd(file: FileHandle, bytesMax: number): Promise<Buffer> {
  const { size } = await file.stat();
  const buffer = Buffer.alloc(Math.min(size, bytesMax));
  if (buffer.length === 0) return buffer;
  const { bytesRead } = await file.read({ buffer, position: size - buffer.length });
  return buffer.subarray(0, bytesRead);
}
