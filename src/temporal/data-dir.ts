import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isSameProcess, processIdentity, UNTOLD } from './processes.ts';
import { HoldfastStartError } from './start-error.ts';

/**
 * The lock on a data folder: each process that wants the folder puts down a file of its own that names it (pid and
 * start time), and then looks at the others' files. Two rules make it safe:
 * D1: a process announces itself before it looks; so of two that come at once, at least one sees the other.
 * D2: a file counts only while the process that it names lives, by pid and start time; so neither SIGKILL nor a pid
 *     that was given to another process leaves the folder locked.
 * There is no takeover, hence no race for one: the file of a dead process is just removed.
 * It sees the processes of this machine (of this container) only; see docs/embedded.md.
 */
const LOCK_NAME = /^holdfast-.*\.lock$/;
const CLAIM_ATTEMPTS = 4;

export interface DataDir {
  /** The folder's real path: links to it lead to the same lock. */
  readonly path: string;
  /** Gives the folder free. May be called again. */
  release(): Promise<void>;
}

/** Makes the folder where needed, and takes it. Throws `data-dir-unwritable` or `data-dir-in-use`. */
export async function takeDataDir(dataDir: string): Promise<DataDir> {
  const dir = await writing(dataDir, async () => {
    await mkdir(dataDir, { recursive: true, mode: 0o700 }); // Task input is in there
    return realpath(dataDir);
  });
  const mine = path.join(dir, `holdfast-${process.pid}-${randomUUID()}.lock`);

  for (let attempt = 1; ; attempt += 1) {
    const holder = await writing(dataDir, () => claim(dir, mine));
    if (holder === undefined) return { path: dir, release: () => rm(mine, { force: true }) };
    if (attempt === CLAIM_ATTEMPTS) {
      throw new HoldfastStartError(
        'data-dir-in-use',
        `The data folder ${dir} is in use by another Holdfast, process ${holder}. ` +
          'Stop that one, or set HOLDFAST_DATA_DIR to another folder.',
      );
    }
    // The other one may only be looking, as we are; unequal pauses let one of the two through.
    await delay(50 + Math.random() * 200);
  }
}

/** Resolves to the process that is in the way, if any; then, as on an error, nothing of the attempt stays. */
async function claim(dir: string, mine: string): Promise<number | undefined> {
  const identity = (await processIdentity(process.pid)) ?? UNTOLD;
  let claimed = false;
  try {
    // Written aside and renamed, so that nobody reads half a file.
    await writeFile(`${mine}.new`, `${process.pid} ${identity}`);
    await rename(`${mine}.new`, mine);
    const { holder, dead } = await look(dir, mine);
    claimed = holder === undefined;
    if (claimed) await Promise.all(dead.map((file) => rm(file, { force: true })));
    return holder;
  } finally {
    if (!claimed) await Promise.all([mine, `${mine}.new`].map((file) => rm(file, { force: true })));
  }
}

/** What a tool that clears up must know: `abandoned` was held by a process that is dead now. Changes nothing. */
export async function dataDirState(dir: string): Promise<'free' | 'held' | 'abandoned'> {
  const { holder, dead } = await look(dir);
  if (holder !== undefined) return 'held';
  return dead.length > 0 ? 'abandoned' : 'free';
}

async function look(dir: string, mine?: string): Promise<{ holder?: number; dead: readonly string[] }> {
  const dead: string[] = [];
  for (const name of await readdir(dir)) {
    const file = path.join(dir, name);
    if (!LOCK_NAME.test(name) || file === mine) continue;
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined) continue; // given free meanwhile
    const [, pid, identity] = /^(\d+) (.+)$/.exec(text) ?? [];
    // One without content is what a power failure leaves behind.
    const lives = pid !== undefined && identity !== undefined && (await isSameProcess(Number(pid), identity));
    if (lives) return { holder: Number(pid), dead: [] };
    dead.push(file);
  }
  return { dead };
}

async function writing<T>(dataDir: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw new HoldfastStartError(
      'data-dir-unwritable',
      `The data folder ${path.resolve(dataDir)} cannot be made or written: ` +
        `${error instanceof Error ? error.message : String(error)}. Set HOLDFAST_DATA_DIR to a folder that can.`,
      { cause: error },
    );
  }
}
