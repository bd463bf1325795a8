import { z } from 'zod';
import { LIMITS, NAME_PATTERN } from '../contracts/limits.ts';
import { isHttpUrl } from './file.ts';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The links in events must leave room in their 20 kB. */
const PUBLIC_URL_LENGTH_MAX = 1024;
/** Appended to the task queue for the activities that publish. */
export const DELIVERY_SUFFIX = '-delivery';

const port = (byDefault: number) =>
  z
    .string()
    .regex(/^\d{1,5}$/, { error: 'must be a port: 0 to 65535' })
    .default(String(byDefault))
    .transform(Number)
    .pipe(z.number().max(65_535, { error: 'must be a port: 0 to 65535' }));

const publicUrl = z
  .string()
  .max(PUBLIC_URL_LENGTH_MAX)
  .refine((text) => isHttpUrl(text) && new URL(text).search === '', {
    error: 'must be an http or https URL without user, password, query and fragment',
  })
  .transform((text) => new URL(text).href.replace(/\/+$/, ''));

/** `ID:BASE64,...`: the first encrypts, all decrypt. */
const payloadKeys = z
  .string()
  .transform((text) => text.split(',').map((entry) => entry.split(':')))
  .pipe(
    z.array(
      z.tuple([
        z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, { error: 'must be ID:BASE64, separated by commas' }),
        z
          .base64({ error: 'must be ID:BASE64, separated by commas' })
          .refine((key) => Buffer.from(key, 'base64').length === 32, {
            error: 'must be a key of 32 bytes in base64',
          }),
      ]),
    ),
  )
  .refine((keys) => new Set(keys.map(([id]) => id)).size === keys.length, { error: 'an id stands twice' });

/** Holdfast's own variables. What stands for addresses and secrets is here, all else is in the file. */
export const environmentSchema = z.object({
  HOST: z.string().max(253).default('127.0.0.1'),
  PORT: port(8080),
  PUBLIC_URL: publicUrl.optional(),
  LOG_LEVEL: z.enum(LOG_LEVELS).default('info'),
  HOLDFAST_CONFIG: z.string().optional(),
  HOLDFAST_KEYS_FILE: z.string().optional(),
  HOLDFAST_PAYLOAD_KEYS: payloadKeys.default([]),
  HOLDFAST_DATA_DIR: z.string().default('.holdfast'),
  HOLDFAST_TEMPORAL_PORT: port(7233),
  HOLDFAST_UI_PORT: port(8233),
  HOLDFAST_TASK_QUEUE: z
    .string()
    .regex(NAME_PATTERN, { error: 'must be letters, digits, ".", "_", "-"' })
    .max(LIMITS.queueLengthMax - DELIVERY_SUFFIX.length)
    .default('holdfast'),
});

export const OWN_VARIABLES: ReadonlySet<string> = new Set(Object.keys(environmentSchema.shape));

/**
 * One of these asks for a cluster that runs already; a profile or a file of Temporal's own counts, as it names the
 * address.
 */
export const CLUSTER_VARIABLES = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'] as const;

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
