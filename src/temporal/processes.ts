import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const runFile = promisify(execFile);
/** The identity of a process that lives, where the system does not tell when it started. */
export const UNTOLD = 'untold';
const PS_OPTIONS = { timeout: 10_000, maxBuffer: 16_777_216, env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' } };

/** A process as the table shows it. `args` is exact on Linux, and split at blanks from `ps` elsewhere. */
export interface ListedProcess {
  readonly pid: number;
  readonly parentPid: number;
  readonly args: readonly string[];
  /** The whole command line with blanks between the arguments. */
  readonly commandLine: string;
}

/**
 * What tells a process from a later one with the same pid: its start time, with the boot it belongs to.
 * `undefined`: there is no such process, or it is a zombie, which holds nothing any more.
 */
export async function processIdentity(pid: number): Promise<string | undefined> {
  const untold = (): string | undefined => (isAlive(pid) ? UNTOLD : undefined);
  if (untold() === undefined || process.platform === 'win32') return untold();
  if (process.platform === 'linux') {
    const [status, boot] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined),
      readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    ]);
    // The name of the program stands in brackets and may hold anything: the fields are counted behind it.
    const fields = status?.slice(status.lastIndexOf(')') + 2).split(' ');
    if (fields === undefined) return untold();
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return `${boot.trim()}:${fields[19] ?? ''}`;
  }
  const shown = await runFile('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], PS_OPTIONS).catch(() => undefined);
  const found = /^(\S+)\s+(.+)$/.exec(shown?.stdout.trim() ?? '');
  if (found === null) return untold();
  return found[1]?.startsWith('Z') === true ? undefined : found[2];
}

/** Whether the process lives that had this identity. Where the system does not tell, one with that pid is taken for it. */
export async function isSameProcess(pid: number, identity: string): Promise<boolean> {
  const now = await processIdentity(pid);
  return now !== undefined && (now === identity || now === UNTOLD || identity === UNTOLD);
}

/** Signal 0 asks whether the process is there; without permission for it, it is there all the same. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** All processes that this user may see. Empty where the platform has no way to ask. */
export async function listProcesses(): Promise<readonly ListedProcess[]> {
  if (process.platform === 'win32') return [];
  if (process.platform === 'linux') {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
    const listed = await Promise.all(pids.map(readProcess));
    return listed.filter((entry) => entry !== undefined);
  }
  const { stdout } = await runFile('ps', ['-axww', '-o', 'pid=,ppid=,command='], PS_OPTIONS);
  return stdout.split('\n').flatMap((line) => {
    const found = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line);
    if (found === null) return [];
    const commandLine = found[3] ?? '';
    return [{ pid: Number(found[1]), parentPid: Number(found[2]), args: commandLine.split(' '), commandLine }];
  });
}

async function readProcess(pid: number): Promise<ListedProcess | undefined> {
  try {
    const [command, status] = await Promise.all([
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      readFile(`/proc/${pid}/stat`, 'utf8'),
    ]);
    const args = command.replace(/\0$/, '').split('\0');
    const parentPid = Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1]);
    return { pid, parentPid, args, commandLine: args.join(' ') };
  } catch {
    return undefined; // it ended meanwhile, or is not ours to see
  }
}

/**
 * Ends a process that is not a child of this one: SIGTERM, and SIGKILL when `graceMs` were not enough. Its identity is
 * checked before each signal, so that a reused pid is never hit. Resolves to whether it is gone.
 */
export async function stopProcess(options: {
  readonly pid: number;
  readonly identity: string;
  readonly graceMs: number;
}): Promise<boolean> {
  const { pid, identity, graceMs } = options;
  for (const [signal, boundMs] of [['SIGTERM', graceMs] as const, ['SIGKILL', 5_000] as const]) {
    if (!(await isSameProcess(pid, identity))) return true;
    try {
      process.kill(pid, signal);
    } catch {
      // Gone, or not ours to signal: the loop below tells which.
    }
    const until = performance.now() + boundMs;
    while (performance.now() < until) {
      if (!(await isSameProcess(pid, identity))) return true;
      await delay(50);
    }
  }
  return false;
}
