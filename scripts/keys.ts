/**
 * `npm run keys -- create|revoke|list`: the API keys in a file. A running facade reads the file anew within a second, so
 * keys are rotated without a restart: create the new one, hand it over, revoke the old one.
 */
import { parseArgs } from 'node:util';
import { SCOPES, type Scope } from '../src/contracts/scopes.ts';
import { newApiKey } from '../src/credentials/api-key.ts';
import { changeKeyFile, keyEntry, readKeyFile } from '../src/credentials/key-file.ts';

const USAGE = `usage: npm run keys -- create --customer ID --scopes ${SCOPES.join(',')} [--env live] [--expires TIME]
       npm run keys -- revoke ID
       npm run keys -- list
The file is --file FILE, else HOLDFAST_KEYS_FILE, else keys.json.`;

class UsageError extends Error {}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      file: { type: 'string', default: process.env['HOLDFAST_KEYS_FILE'] ?? 'keys.json' },
      customer: { type: 'string' },
      scopes: { type: 'string' },
      env: { type: 'string', default: 'live' },
      expires: { type: 'string' },
    },
  });
  const [command, id] = positionals;
  switch (command) {
    case 'create':
      return create(values);
    case 'revoke':
      if (id === undefined) throw new UsageError('which key?');
      return revoke(values.file, id);
    case 'list':
      return list(values.file);
    case undefined:
      throw new UsageError('what is to be done?');
    default:
      throw new UsageError(`unknown: ${command}`);
  }
}

async function create(given: {
  file: string;
  env: string;
  customer?: string | undefined;
  scopes?: string | undefined;
  expires?: string | undefined;
}): Promise<void> {
  if (!/^[a-z0-9]{1,16}$/.test(given.env)) throw new UsageError('--env takes 1 to 16 of a-z 0-9');
  const { id, text, secretHash } = newApiKey(given.env);
  const entry = keyEntry.safeParse({
    id,
    customerId: given.customer,
    scopes: given.scopes?.split(',') as Scope[] | undefined,
    secretHash,
    createdAt: new Date().toISOString(),
    expiresAt: given.expires ?? null,
    revokedAt: null,
  });
  if (!entry.success) {
    const what = entry.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
    throw new UsageError(what.join('; '));
  }
  await changeKeyFile(given.file, (keys) => [...keys, entry.data]);
  process.stderr.write(`key ${id} of customer ${entry.data.customerId}; it is shown only now:\n`);
  process.stdout.write(`${text}\n`);
}

async function revoke(file: string, id: string): Promise<void> {
  await changeKeyFile(file, (keys) => {
    if (!keys.some((entry) => entry.id === id)) throw new UsageError(`no key ${id}`);
    return keys.map((entry) =>
      entry.id === id ? { ...entry, revokedAt: entry.revokedAt ?? new Date().toISOString() } : entry,
    );
  });
  process.stderr.write(`key ${id} is revoked\n`);
}

async function list(file: string): Promise<void> {
  for (const { id, customerId, scopes, createdAt, expiresAt, revokedAt } of await readKeyFile(file)) {
    const state = revokedAt !== null ? `revoked ${revokedAt}` : `expires ${expiresAt ?? 'never'}`;
    process.stdout.write(`${id}  ${customerId}  ${scopes.join(',')}  created ${createdAt}  ${state}\n`);
  }
}

await main().catch((error: unknown) => {
  const isUsage = error instanceof UsageError || (error instanceof TypeError && 'code' in error);
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${isUsage ? `${USAGE}\n` : ''}`);
  process.exitCode = isUsage ? 2 : 1;
});
