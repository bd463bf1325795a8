import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { LIMITS, NAME_PATTERN } from '../contracts/limits.ts';
import { addressKindOf, literalAddressOf } from '../transports/address.ts';
import type { ConfigProblem } from './problems.ts';

/** In the working directory, that is, beside package.json. */
const DEFAULT_FILE = 'holdfast.config.json';
const FILE_BYTES_MAX = 1024 * 1024;
const URL_LENGTH_MAX = 2048;

/** A published delivery that nobody claims is published again ten times, at most hourly. Not settings. */
export const REDELIVERY = { maximumSeconds: 3600, rounds: 1 + 10 } as const;

const httpUrl = z
  .string()
  .max(URL_LENGTH_MAX)
  .refine(isHttpUrl, { error: 'must be an http or https URL without user, password and fragment' });

const webhookRoute = z
  .strictObject({
    transport: z.literal('webhook'),
    url: httpUrl,
    secretEnv: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, { error: 'must be the name of an environment variable' })
      .optional(),
    allowPrivate: z.boolean().default(false),
  })
  .superRefine((route, context) => {
    const literal = URL.canParse(route.url) ? literalAddressOf(new URL(route.url).hostname) : null;
    const kind = literal === null ? 'public' : addressKindOf(literal);
    if (kind === 'never') {
      context.addIssue({ code: 'custom', path: ['url'], message: 'is an address where no receiver may be' });
    } else if (kind === 'private' && !route.allowPrivate) {
      context.addIssue({
        code: 'custom',
        path: ['url'],
        message: 'is a private address: that needs "allowPrivate": true',
      });
    }
  });

const routes = z.record(
  z.string().regex(NAME_PATTERN, { error: 'must be a queue name: letters, digits, ".", "_", "-", at most 128' }),
  webhookRoute,
);

const CONCURRENCY_DEFAULT = 50;
const CONCURRENCY_PER_CUSTOMER_DEFAULT = 10;

const publish = z
  .strictObject({
    initialSeconds: z.number().min(0.1).max(3600).default(1),
    factor: z.number().min(1).max(10).default(2),
    maximumSeconds: z.number().min(0.1).max(3600).default(300),
    attempts: z.int().min(1).max(1000).default(12),
    timeoutSeconds: z.number().min(1).max(120).default(15),
    concurrency: z.int().min(1).max(1000).default(CONCURRENCY_DEFAULT),
    concurrencyPerCustomer: z.int().min(1).max(1000).optional(),
  })
  .transform((given) => ({
    ...given,
    // A worker that is made smaller than the default is not a contradiction.
    concurrencyPerCustomer:
      given.concurrencyPerCustomer ?? Math.min(CONCURRENCY_PER_CUSTOMER_DEFAULT, given.concurrency),
  }))
  .superRefine((given, context) => {
    if (given.initialSeconds > given.maximumSeconds) {
      context.addIssue({ code: 'custom', path: ['initialSeconds'], message: 'must not be above maximumSeconds' });
    }
    if (given.concurrencyPerCustomer > given.concurrency) {
      const message = 'must not be above concurrency';
      context.addIssue({ code: 'custom', path: ['concurrencyPerCustomer'], message });
    }
  });

const policy = z
  .strictObject({
    runTimeoutSeconds: z.int().min(1).max(LIMITS.runTimeoutSecondsMax).default(3600),
    runTimeoutSecondsMax: z.int().min(1).max(LIMITS.runTimeoutSecondsMax).default(604_800),
    redeliverAfterSeconds: z.int().min(1).max(REDELIVERY.maximumSeconds).default(300),
    publish: publish.prefault({}),
  })
  .superRefine((given, context) => {
    if (given.runTimeoutSeconds > given.runTimeoutSecondsMax) {
      const message = `must not be above runTimeoutSecondsMax; by default it is 3600`;
      context.addIssue({ code: 'custom', path: ['runTimeoutSeconds'], message });
    }
  });

/** The file's content, complete: whatever it leaves out has its default. */
export const fileSchema = z.strictObject({ routes: routes.default({}), policy: policy.prefault({}) });
export type FileConfig = z.output<typeof fileSchema>;

/** Reads the file as JSON; no file where none was asked for is an empty one. */
export function readConfigFile(
  named: string | undefined,
  cwd: string,
): { file: string | null; content: unknown; problems: ConfigProblem[] } {
  const file = path.resolve(cwd, named ?? DEFAULT_FILE);
  const refuse = (message: string): ReturnType<typeof readConfigFile> => ({
    file,
    content: undefined,
    problems: [{ where: named === undefined ? DEFAULT_FILE : 'HOLDFAST_CONFIG', message }],
  });

  let text: string;
  try {
    const { size } = statSync(file);
    if (size > FILE_BYTES_MAX) return refuse(`the file is larger than ${FILE_BYTES_MAX} bytes`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    if (named === undefined && code === 'ENOENT') return { file: null, content: {}, problems: [] };
    return refuse(`the file cannot be read (${code})`);
  }

  let hasPrototypeKey = false;
  let content: unknown;
  try {
    content = JSON.parse(text, (key, value: unknown) => {
      if (key === '__proto__') hasPrototypeKey = true;
      return value;
    });
  } catch (error) {
    return refuse(`the file is not JSON${placeOf(error, text)}`);
  }
  // Schemas leave this key out without a word; here no key is.
  if (hasPrototypeKey) return refuse('unknown key: __proto__');
  return { file, content, problems: [] };
}

/** Where the parser stopped. Its own message quotes the file, which may hold what should not be shown. */
function placeOf(error: unknown, text: string): string {
  const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
  if (position === undefined) return '';
  const before = text.slice(0, Number(position)).split('\n');
  return `: line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
}

export function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hash } = new URL(text);
  return (protocol === 'http:' || protocol === 'https:') && username === '' && password === '' && hash === '';
}
