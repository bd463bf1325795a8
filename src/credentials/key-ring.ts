/**
 * The keys in force. The file is looked at again while requests come, so that keys are added, rotated and revoked
 * without a restart; a file that has become unusable leaves the former keys in force, and is reported.
 */
import { stat } from 'node:fs/promises';
import type { BaseLogger } from 'pino';
import type { Scope } from '../contracts/scopes.ts';
import { isSecretOf, parseApiKey } from './api-key.ts';
import { readKeyFile, type KeyEntry } from './key-file.ts';

/** A revoked key is refused this long after the file says so, at the latest. */
const LOOK_EVERY_MS = 1_000;
/** Compared with when no entry has the id: an unknown id takes as long as a wrong secret. */
const NO_HASH = '0'.repeat(64);

export interface Caller {
  customerId: string;
  scopes: ReadonlySet<Scope>;
  /** Of the key, for logs; null without keys. */
  keyId: string | null;
}

export class KeyRing {
  readonly #file: string;
  readonly #log: Pick<BaseLogger, 'info' | 'error'>;
  readonly #now: () => number;
  #keys: ReadonlyMap<string, KeyEntry> = new Map();
  #seen = '';
  #lookedAt = -Infinity;

  private constructor(file: string, log: Pick<BaseLogger, 'info' | 'error'>, now: () => number) {
    this.#file = file;
    this.#log = log;
    this.#now = now;
  }

  /** Reads the file; one that cannot be used is an error, at the start. */
  static async open(
    file: string,
    { log, now = Date.now }: { log: Pick<BaseLogger, 'info' | 'error'>; now?: () => number },
  ): Promise<KeyRing> {
    const ring = new KeyRing(file, log, now);
    // What changes from here on is noticed by the first look.
    ring.#keys = byId(await readKeyFile(file));
    return ring;
  }

  /** Who presents this text; null for anything that is not a key in force, whatever the reason. */
  async authenticate(text: string): Promise<Caller | null> {
    await this.#look();
    const parsed = parseApiKey(text);
    const entry = parsed === null ? undefined : this.#keys.get(parsed.id);
    const isProven = isSecretOf(parsed?.secret ?? '', entry?.secretHash ?? NO_HASH);
    if (!isProven || entry === undefined || entry.revokedAt !== null) return null;
    if (entry.expiresAt !== null && Date.parse(entry.expiresAt) <= this.#now()) return null;
    return { customerId: entry.customerId, scopes: new Set(entry.scopes), keyId: entry.id };
  }

  async #look(): Promise<void> {
    if (this.#now() - this.#lookedAt < LOOK_EVERY_MS) return;
    this.#lookedAt = this.#now();
    try {
      const mark = await markOf(this.#file);
      if (mark === this.#seen) return;
      this.#seen = mark;
      this.#keys = byId(await readKeyFile(this.#file));
      this.#log.info({ keys: this.#keys.size }, 'API keys read anew');
    } catch (error) {
      this.#log.error({ err: error }, 'API keys could not be read: the former ones stay in force');
    }
  }
}

function byId(keys: KeyEntry[]): ReadonlyMap<string, KeyEntry> {
  return new Map(keys.map((entry) => [entry.id, entry]));
}

async function markOf(file: string): Promise<string> {
  const { mtimeMs, size, ino } = await stat(file);
  return `${mtimeMs} ${size} ${ino}`;
}
