/** What the three mains share: a logger, an orderly stop on signals, and an exit code that tells. */
import { pino, type Logger } from 'pino';
import { ConfigError, loadConfig, type Config } from './config/index.ts';
import { startHoldfast, type Parts } from './run.ts';
import { HoldfastStartError } from './temporal/start-error.ts';

/** Fields whose values are secrets wherever they turn up. */
const REDACTED = [
  'apiKey',
  'secret',
  'authorization',
  'claimId',
  '*.apiKey',
  '*.secret',
  '*.authorization',
  '*.claimId',
];

/** The sum of the parts' own bounds stays below this; beyond it the process ends all the same. */
const STOP_MS = 9_500;

export function createLog(level: Config['logLevel']): Logger {
  return pino({ level, redact: REDACTED, base: null, timestamp: pino.stdTimeFunctions.isoTime });
}

/**
 * Runs until SIGINT or SIGTERM, then stops in order within 10 s (exit 0). A second signal ends at once (130). What
 * cannot start, or ends by itself, is said in one line (exit 1).
 */
export async function runUntilSignal(parts: Parts): Promise<void> {
  let log: Logger | null = null;
  try {
    const config = loadConfig({ env: process.env, cwd: process.cwd() });
    log = createLog(config.logLevel);
    // From the first moment on: a signal during the start must not leave a server behind.
    const signalled = nextSignal();
    const stop = new AbortController();
    void signalled.then((signal) => {
      onSignal(signal, log);
      stop.abort(new StoppedError());
    });
    const running = await startHoldfast({ config, parts, log, signal: stop.signal });
    await Promise.race([signalled, running.failed]);
    await running.stop();
    log.info('stopped');
    process.exit(0);
  } catch (error) {
    if (error instanceof StoppedError) {
      log?.info('stopped');
      process.exit(0);
    }
    if (log === null || isStartError(error)) reportStartError(error);
    else log.fatal({ err: error }, 'Holdfast ended');
    process.exit(1);
  }
}

/** A signal came before everything was up. */
class StoppedError extends Error {}

function isStartError(error: unknown): error is Error {
  return error instanceof ConfigError || error instanceof HoldfastStartError;
}

/** Says on stderr why it did not start: the message alone where it was written for people, else the stack. */
export function reportStartError(error: unknown): void {
  const text = isStartError(error) ? error.message : error instanceof Error ? error.stack : String(error);
  process.stderr.write(`${text}\n`);
}

/** Resolves with the first signal that asks to stop. */
export async function nextSignal(): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve(signal));
  });
}

/** Bounds the stop, whatever is still under way: the exit itself ends the server that was started. */
function onSignal(signal: string, log: Logger | null): void {
  log?.info({ signal }, 'stopping');
  void nextSignal().then(() => process.exit(130));
  setTimeout(() => {
    log?.error('did not stop in time');
    process.exit(1);
  }, STOP_MS);
}
