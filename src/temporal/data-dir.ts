import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { processIdentity } from './processes.ts';
import { HoldfastStartError } from './start-error.ts';

/**
 * The lock on a data folder: each process that wants the folder puts down a file of its own that names it (pid and
 * start time), and then looks at the others' files. Two rules make it safe:
 * D1: a process announces itself before it looks; so of two that come at once, at least one sees the other.
 * D2: a file counts only while the process that it names lives, by pid and start time; so neither SIGKILL nor a pid
 *     that was given to another process leaves the folder locked.
 * There is no takeover, hence no race for one: the file of a dead process is just removed.
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
  const identity = (await processIdentity(process.pid)) ?? 'unknown';
  const dir = await writing(dataDir, async () => {
    await mkdir(dataDir, { recursive: true, mode: 0o700 }); // Task input is in there
    return realpath(dataDir);
  });
  const name = `holdfast-${process.pid}-${randomUUID()}`;
  const mine = path.join(dir, `${name}.lock`);

  for (let attempt = 1; ; attempt += 1) {
    await writing(dataDir, async () => {
      // Written aside and renamed, so that nobody reads half a file.
      await writeFile(path.join(dir, `${name}.new`), JSON.stringify({ pid: process.pid, identity }));
      await rename(path.join(dir, `${name}.new`), mine);
    });
    const holder = await liveHolder(dir, mine);
    if (holder === undefined) return { path: dir, release: () => rm(mine, { force: true }) };
    await rm(mine, { force: true });
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

/** What a tool that clears up must know: `abandoned` was held by a process that is dead now. */
export async function dataDirState(dir: string): Promise<'free' | 'held' | 'abandoned'> {
  const wasTaken = (await readdir(dir)).some((name) => LOCK_NAME.test(name));
  if (!wasTaken) return 'free';
  return (await liveHolder(dir, '')) === undefined ? 'abandoned' : 'held';
}

async function liveHolder(dir: string, mine: string): Promise<number | undefined> {
  for (const name of await readdir(dir)) {
    const file = path.join(dir, name);
    if (!LOCK_NAME.test(name) || file === mine) continue;
    const owner = await readOwner(file);
    if (owner === undefined) continue;
    if ((await processIdentity(owner.pid)) === owner.identity) return owner.pid;
    await rm(file, { force: true });
  }
  return undefined;
}

async function readOwner(file: string): Promise<{ pid: number; identity: string } | undefined> {
  try {
    const owner: unknown = JSON.parse(await readFile(file, 'utf8'));
    if (typeof owner !== 'object' || owner === null || !('pid' in owner) || !('identity' in owner)) return undefined;
    const { pid, identity } = owner;
    return typeof pid === 'number' && typeof identity === 'string' ? { pid, identity } : undefined;
  } catch {
    return undefined; // given free meanwhile, or no file of ours
  }
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
