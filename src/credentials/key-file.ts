/** The file of API keys: who may call, by hash. It holds no secret, and is replaced as a whole or not at all. */
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { LIMITS } from '../contracts/limits.ts';
import { SCOPES } from '../contracts/scopes.ts';

const FILE_BYTES_MAX = 4 * 1024 * 1024;
const KEYS_MAX = 10_000;

const customerId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)
  .max(LIMITS.customerIdLengthMax);

export const keyEntry = z.strictObject({
  id: z.string().regex(/^[a-z0-9]{16}$/),
  customerId,
  scopes: z.array(z.enum(SCOPES)).min(1),
  secretHash: z.string().regex(/^[a-f0-9]{64}$/),
  createdAt: z.iso.datetime(),
  /** From then on it is refused; null: never. */
  expiresAt: z.iso.datetime({ offset: true }).nullable(),
  revokedAt: z.iso.datetime().nullable(),
});
export type KeyEntry = z.output<typeof keyEntry>;

const keyFile = z.strictObject({ keys: z.array(keyEntry).max(KEYS_MAX) });

/** Reads and checks the file. Throws an Error that names the file and what is wrong, never a value of it. */
export async function readKeyFile(file: string): Promise<KeyEntry[]> {
  try {
    const { size } = await stat(file);
    if (size > FILE_BYTES_MAX) throw new Error(`larger than ${FILE_BYTES_MAX} bytes`);
    const { keys } = keyFile.parse(JSON.parse(await readFile(file, 'utf8')));
    if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new Error('an id stands twice');
    return keys;
  } catch (error) {
    throw new Error(`the key file ${file} cannot be used: ${reasonOf(error)}`, { cause: error });
  }
}

/** Changes the file, or makes it, under a lock beside it, so that two changes at once lose nothing. */
export async function changeKeyFile(file: string, change: (keys: KeyEntry[]) => KeyEntry[]): Promise<void> {
  const lock = `${file}.lock`;
  const held = await open(lock, 'wx').catch((error: unknown) => {
    throw new Error(`${lock} is there: another change is under way, or was cut off. Remove it if none is.`, {
      cause: error,
    });
  });
  try {
    const keys = change(await readKeyFile(file).catch(emptyWhereMissing));
    const text = `${JSON.stringify({ keys }, null, 2)}\n`;
    await writeFile(`${file}.new`, text, { mode: 0o600 });
    await rename(`${file}.new`, file);
  } finally {
    await held.close();
    await rm(lock, { force: true });
  }
}

function emptyWhereMissing(error: unknown): KeyEntry[] {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return [];
  throw error;
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) {
    return error.issues
      .slice(0, 5)
      .map(({ path, message }) => `${path.join('.')}: ${message}`)
      .join('; ');
  }
  // A parser's message would quote the file.
  if (error instanceof SyntaxError) return 'not JSON';
  return error instanceof Error ? error.message : String(error);
}
