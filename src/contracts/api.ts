/**
 * The bodies and parameters of the HTTP API, version 1. The one place that checks what comes from outside: strict
 * objects (a field that is not known is refused, never ignored), every text and number bounded, every size counted in
 * bytes of its JSON. What only describes (`meta`) is for the OpenAPI document, which is made of these same schemas.
 */
import { z } from 'zod';
import { instantOf } from './instant.ts';
import { jsonBytes, type Json } from './json.ts';
import { IDEMPOTENCY_KEY_PATTERN, LIMITS, NAME_PATTERN } from './limits.ts';
import { DELIVERY_STATES, TASK_STATUSES, type TaskStatus } from './task.ts';

/** Marks an issue that is about size: the answer is 413 and not 400. */
export const TOO_LARGE = 'too-large';

function sized<Schema extends z.ZodType>(schema: Schema, bytesMax: number): Schema {
  return schema
    .superRefine((value, context) => {
      if (jsonBytes(value) <= bytesMax) return;
      const message = `must not be larger than ${bytesMax} bytes of JSON`;
      context.addIssue({ code: 'custom', message, params: { reason: TOO_LARGE } });
    })
    .meta({ description: `At most ${bytesMax} bytes of JSON, in UTF-8.` });
}

/** For the document: what a text stands for, in place of the pattern that it is checked with. */
function describedAs(described: object): (context: { jsonSchema: object }) => void {
  return ({ jsonSchema }) => {
    for (const keyword of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, keyword);
    Object.assign(jsonSchema, described);
  };
}

const name = z
  .string()
  .regex(NAME_PATTERN, { error: 'must be letters, digits, ".", "_" or "-", at most 128, the first a letter or digit' });

/** What `JSON.parse` gave is JSON; only its size is to be checked. */
const json = (bytesMax: number): z.ZodType<Json> => sized(z.unknown() as unknown as z.ZodType<Json>, bytesMax);

const text = (lengthMax: number): z.ZodString => z.string().min(1).max(lengthMax);

/** RFC 3339 with a zone: a local time would mean another moment on another machine. */
const moment = z.iso
  .datetime({ offset: true, error: 'must be an RFC 3339 time with a zone, as 2026-01-31T09:00:00Z' })
  .transform((value) => instantOf(Date.parse(value)))
  // An offset can lead out of these years, and instants beyond them no longer compare as strings.
  .refine((instant) => /^\d{4}-/.test(instant), { error: 'must lie within the years 0000 to 9999' })
  .meta({ override: describedAs({ type: 'string', format: 'date-time', description: 'RFC 3339, with a zone.' }) });

/** Without white space: the URL's own check would trim it, and so change what was sent. */
const webUrl = z
  .string()
  .max(2048)
  .regex(/^\S+$/, { error: 'must not hold white space' })
  .pipe(z.url({ protocol: /^https?$/ }))
  .meta({
    override: describedAs({ type: 'string', format: 'uri', pattern: '^https?://\\S+$', maxLength: 2048 }),
  });

const source = sized(
  z.strictObject({
    kind: text(64),
    ref: text(1024),
    url: webUrl.optional(),
  }),
  LIMITS.sourceBytesMax,
);

const labels = z
  .record(z.string().min(1), z.string())
  .superRefine((value, context) => {
    const entries = Object.entries(value);
    if (entries.length > LIMITS.labelsMax) {
      const message = `must not be more than ${LIMITS.labelsMax} labels`;
      context.addIssue({ code: 'custom', message, params: { reason: TOO_LARGE } });
    }
    for (const [label, content] of entries) {
      if (jsonBytes(label) + jsonBytes(content) <= LIMITS.labelBytesMax) continue;
      const message = `must not be larger than ${LIMITS.labelBytesMax} bytes of JSON, its name included`;
      context.addIssue({ code: 'custom', path: [label], message, params: { reason: TOO_LARGE } });
    }
  })
  .meta({
    description: `At most ${LIMITS.labelsMax}, each at most ${LIMITS.labelBytesMax} bytes of JSON, its name included.`,
  });

export const scheduleBody = z
  .strictObject({
    taskId: name.optional(),
    type: name,
    input: json(LIMITS.inputBytesMax).optional(),
    releaseAt: moment.optional(),
    delaySeconds: z.number().min(0).max(LIMITS.releaseAheadSecondsMax).optional(),
    parentTaskId: name.optional(),
    continuesTaskId: name.optional(),
    queue: name.optional(),
    priority: z.int().min(1).max(5).optional(),
    runTimeoutSeconds: z.int().min(1).max(LIMITS.runTimeoutSecondsMax).optional(),
    source: source.optional(),
    labels: labels.optional(),
  })
  .refine((body) => body.releaseAt === undefined || body.delaySeconds === undefined, {
    error: 'releaseAt and delaySeconds exclude each other',
    path: ['delaySeconds'],
  })
  .meta({
    id: 'ScheduleRequest',
    description: 'At most one of releaseAt and delaySeconds; neither: due at once.',
    dependentSchemas: { releaseAt: { type: 'object', propertyNames: { not: { const: 'delaySeconds' } } } },
  });
export type ScheduleBody = z.output<typeof scheduleBody>;

export const claimBody = z
  .strictObject({
    deliveryEventId: text(128),
    executorId: text(LIMITS.executorIdLengthMax).optional(),
  })
  .meta({ id: 'ClaimRequest' });
export type ClaimBody = z.output<typeof claimBody>;

export const messageBody = z
  .strictObject({ body: json(LIMITS.messageBytesMax) })
  .refine((given) => 'body' in given, {
    error: 'is missing',
    path: ['body'],
  })
  .meta({ id: 'MessageRequest' });
export type MessageBody = z.output<typeof messageBody>;

export const readMarkBody = z.strictObject({ upTo: z.int().min(0) }).meta({ id: 'ReadMarkRequest' });
export type ReadMarkBody = z.output<typeof readMarkBody>;

export const cancelBody = z
  .strictObject({ reason: sized(z.string(), LIMITS.reasonBytesMax).optional() })
  .meta({ id: 'CancelRequest' });
export type CancelBody = z.output<typeof cancelBody>;

const effect = sized(
  z.strictObject({ kind: z.string().min(1), ref: z.string().min(1), note: z.string().optional() }),
  LIMITS.effectBytesMax,
);

const effects = z
  .array(effect)
  .superRefine((value, context) => {
    if (value.length <= LIMITS.effectsMax) return;
    const message = `must not be more than ${LIMITS.effectsMax} effects`;
    context.addIssue({ code: 'custom', message, params: { reason: TOO_LARGE } });
  })
  .meta({ description: `At most ${LIMITS.effectsMax}.` });

export const resultBody = sized(
  z.strictObject({
    success: z.boolean(),
    summary: z.string().optional(),
    output: json(LIMITS.resultBytesMax).optional(),
    effects: effects.optional(),
    error: json(LIMITS.resultBytesMax).optional(),
    claimId: z.string().regex(IDEMPOTENCY_KEY_PATTERN, { error: 'is not of the form of a claim id' }).optional(),
    ifMailboxSeq: z.int().min(0).optional(),
  }),
  // The record keeps nulls for what is left out: they count.
  LIMITS.resultBytesMax - 128,
).meta({ id: 'ResultRequest' });
export type ResultBody = z.output<typeof resultBody>;

export const taskParams = z.object({ taskId: name });

/** `minimum` only describes: zero is refused with a word of its own where it makes no sense. */
const count = (byDefault: number, max: number, minimum = 0): z.ZodType<number> =>
  z
    .string()
    .regex(/^\d{1,16}$/, { error: 'must be a number' })
    .transform(Number)
    .pipe(z.number().max(max))
    .prefault(String(byDefault))
    .meta({ override: describedAs({ type: 'integer', minimum, maximum: max, default: byDefault }) });

/** `limit` has no room for 0: an empty page would look like an empty mailbox. */
export const messagesQuery = z.strictObject({
  after: count(0, Number.MAX_SAFE_INTEGER),
  limit: count(LIMITS.messagesPageMax, LIMITS.messagesPageMax, 1).refine((limit) => limit > 0, {
    error: 'must not be 0',
  }),
});

/** Several values of one field are alternatives: given again, or separated by commas. */
function anyOf<Value extends string>(values: readonly [Value, ...Value[]]): z.ZodType<Value[]> {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => [given].flat().flatMap((each) => each.split(',')))
    .pipe(z.array(z.enum(values)).min(1).max(values.length))
    .meta({
      override: describedAs({
        type: 'array',
        items: { enum: values },
        minItems: 1,
        maxItems: values.length,
        description: 'Several are alternatives: given again, or separated by commas.',
      }),
    });
}

export const listQuery = z.strictObject({
  status: anyOf(TASK_STATUSES as [TaskStatus, ...TaskStatus[]]).optional(),
  delivery: anyOf(DELIVERY_STATES).optional(),
  type: name.optional(),
  queue: name.optional(),
  parentTaskId: name.optional(),
  rootTaskId: name.optional(),
  source: text(64 + 1 + 1024)
    .meta({ description: '`kind:ref` of the source.' })
    .optional(),
  createdAfter: moment.optional(),
  pageSize: count(LIMITS.pageSizeDefault, LIMITS.pageSizeMax, 1).refine((size) => size > 0, { error: 'must not be 0' }),
  pageToken: text(4096).optional(),
});

/** For commands that say everything by their path. */
export const emptyBody = z.strictObject({}).meta({ id: 'EmptyRequest' });

export const postHeaders = z.object({
  'Idempotency-Key': z
    .string()
    .regex(IDEMPOTENCY_KEY_PATTERN, {
      error: 'must be 1 to 128 printable ASCII characters without space, quote and backslash',
    })
    .optional(),
});
