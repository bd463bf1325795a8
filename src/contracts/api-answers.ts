/**
 * The answers of the HTTP API, version 1, as schemas. The facade does not parse what it sends: these are for the
 * OpenAPI document and for the tests, which hold every answer and the TypeScript types against them. Strict, as the
 * requests are: a field that is not written here is not part of the API.
 */
import { z } from 'zod';
import { CLAIMS } from './claims.ts';
import { ERROR_TITLE, HTTP_STATUS, type ErrorCode } from './errors.ts';
import type { Json } from './json.ts';
import { LIMITS, NAME_PATTERN } from './limits.ts';
import { DELIVERY_STATES, TASK_STATUSES, type TaskStatus } from './task.ts';

const name = z.string().regex(NAME_PATTERN);

const instant = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  .meta({
    id: 'Instant',
    format: 'date-time',
    description: 'A moment in UTC, in this one form: instants compare as texts.',
  });

/** Any JSON at all: the one place where a field may be anything. */
const json = (description: string): z.ZodType<Json> =>
  (z.unknown() as unknown as z.ZodType<Json>).meta({ description });

const count = z.int().min(0);

const taskStatus = z.enum(TASK_STATUSES as [TaskStatus, ...TaskStatus[]]).meta({ id: 'TaskStatus' });

const deliveryState = z.enum(DELIVERY_STATES).meta({
  id: 'DeliveryState',
  description:
    'none: nothing is owed · pending: a publish is owed and durable · published: the transport took it · consumed: a ' +
    'claim was accepted for it · exhausted: given up, and still claimable.',
});

const effect = z
  .strictObject({ kind: z.string(), ref: z.string(), note: z.string().optional() })
  .meta({ id: 'ReportedEffect', description: 'What an executor reports to have done: reported, not verified.' });

const result = z
  .strictObject({
    success: z.boolean(),
    summary: z.string().nullable(),
    output: json('Any JSON; null where there is none.'),
    effects: z.array(effect).max(LIMITS.effectsMax),
    error: json('Any JSON; null where there is none.'),
  })
  .meta({ id: 'TaskResult', description: 'What an executor reported. Accepted means recorded, not that it is right.' });

const transition = z
  .strictObject({
    revision: count,
    at: instant,
    from: taskStatus.nullable(),
    to: taskStatus,
    cause: z.enum([
      'created',
      'published',
      'claim-accepted',
      'result-accepted',
      'cancel-accepted',
      'canceled-in-temporal',
      'terminated-by-operator',
      'ended-by-temporal',
      'run-window-exceeded',
      'admission-rejected',
    ]),
  })
  .meta({ id: 'Transition' });

const admission = z
  .strictObject({
    decision: z.enum(['admitted', 'rejected']),
    kind: z.enum(['root', 'child']),
    usage: z.enum(['not-asked', 'allowed', 'denied', 'unavailable']),
    quota: z.enum(['not-asked', 'within', 'exceeded']),
    reason: z.string().nullable(),
  })
  .meta({ id: 'Admission' });

const lineage = z
  .strictObject({
    rootTaskId: name,
    parentTaskId: name.nullable(),
    ancestors: z
      .array(name)
      .max(LIMITS.lineageDepthMax)
      .meta({ description: 'Parent first, root last; empty for a root.' }),
  })
  .meta({ id: 'Lineage' });

const readMarks = { lastSeq: count, readSeq: count };

export const mailboxAnswer = z.strictObject({ ...readMarks, unread: count }).meta({ id: 'Mailbox' });

const taskFields = {
  taskId: name,
  customerId: z.string(),
  type: name,
  queue: name,
  priority: z.int().min(1).max(5).meta({ description: '1 is the most urgent.' }),
  status: taskStatus,
  revision: count.meta({ description: 'Grows by one with each accepted change.' }),
  input: json('As it was sent; null where nothing was.'),
  source: z
    .strictObject({ kind: z.string(), ref: z.string(), url: z.string().optional() })
    .nullable()
    .meta({ description: 'What asked for the Task.' }),
  labels: z.record(z.string(), z.string()),
  lineage,
  continuesTaskId: name.nullable(),
  createdAt: instant,
  releaseAt: instant,
  queuedAt: instant.nullable(),
  startedAt: instant.nullable(),
  completedAt: instant.nullable(),
  runTimeoutSeconds: z.int().min(1).max(LIMITS.runTimeoutSecondsMax),
  timeoutAt: instant.nullable(),
  nextAlarmAt: instant.nullable(),
  delivery: z.strictObject({
    eventId: z.string().nullable().meta({
      description: 'The claim token; null before the release, and where the caller has neither execute nor operate.',
    }),
    state: deliveryState,
    publishedAt: instant.nullable(),
    attempts: count,
    nextAttemptAt: instant.nullable(),
    lastError: z.string().nullable(),
  }),
  claim: z
    .strictObject({
      deliveryEventId: z.string().nullable().meta({
        description: 'Null where the caller has neither execute nor operate.',
      }),
      executorId: z.string().nullable(),
      claimedAt: instant,
    })
    .nullable(),
  mailbox: mailboxAnswer,
  admission,
  cancellation: z
    .strictObject({
      reason: z.string().nullable(),
      by: z.enum(['command', 'temporal', 'admission']).meta({
        description: 'Who asked: a command of the API, an operator in Temporal, or the admission.',
      }),
    })
    .nullable(),
  result: result.nullable(),
  transitions: z.array(transition),
};

export const taskAnswer = z.strictObject(taskFields).meta({ id: 'Task' });

export const claimedTaskAnswer = z
  .strictObject({
    ...taskFields,
    claimId: z.string().meta({
      description: "The key of the accepted claim: the executor's secret, told in this answer alone.",
    }),
  })
  .meta({ id: 'ClaimedTask' });

const summaryFields = {
  taskId: name,
  customerId: z.string(),
  type: name,
  queue: name,
  status: taskStatus,
  lineage: z.strictObject({ rootTaskId: name, parentTaskId: name.nullable() }),
  source: z.string().nullable().meta({ description: '`kind:ref`.' }),
  createdAt: instant,
  releaseAt: instant,
  delivery: z.strictObject({ state: deliveryState }),
};

export const taskSummaryAnswer = z
  .strictObject(summaryFields)
  .meta({ id: 'TaskSummary', description: "From Temporal's visibility: it may lag behind by up to a few seconds." });

export const describedTaskAnswer = z.strictObject({ asOf: z.literal('described'), ...summaryFields }).meta({
  id: 'DescribedTask',
  description: 'What Temporal tells of a live Task while no worker answers: less, but consistent.',
});

export const taskPageAnswer = z
  .strictObject({ tasks: z.array(taskSummaryAnswer).max(LIMITS.pageSizeMax), nextPageToken: z.string().nullable() })
  .meta({ id: 'TaskPage', description: 'A Task that changes while pages are read may come twice; none is skipped.' });

export const messageSentAnswer = z
  .strictObject({ messageId: z.string(), seq: z.int().min(1) })
  .meta({ id: 'MessageSent' });

export const messagesAnswer = z
  .strictObject({
    messages: z
      .array(
        z
          .strictObject({ seq: z.int().min(1), messageId: z.string(), at: instant, body: json('As it was sent.') })
          .meta({ id: 'Message' }),
      )
      .max(LIMITS.messagesPageMax),
    ...readMarks,
  })
  .meta({ id: 'Messages', description: 'Unread messages, in order.' });

export const stopCheckAnswer = z
  .discriminatedUnion('reason', [
    z
      .strictObject({
        shouldStop: z.literal(true),
        reason: z.enum(['task_missing', 'task_terminal', 'ancestor_missing', 'ancestor_terminal']),
        taskId: name.meta({ description: 'The Task or ancestor that it is about.' }),
        status: taskStatus.nullable().meta({ description: 'Null where it is missing, or only its end is known.' }),
      })
      .meta({ id: 'Stop' }),
    z
      .strictObject({ shouldStop: z.literal(false), reason: z.literal('active') })
      .meta({ id: 'GoOn', description: 'The Task and all its ancestors are active.' }),
    z.strictObject({ shouldStop: z.literal(false), reason: z.literal('check_failed') }).meta({
      id: 'GoOnUnchecked',
      description: 'It could not be told in time: go on for now, the fault was recorded.',
    }),
  ])
  .meta({ id: 'StopCheck' });

/** Where in Temporal's history the proof can be read, and what it is about. */
const provenEvidence = z
  .strictObject({
    workflowId: z.string(),
    runId: z.string(),
    revision: count,
    at: instant,
    taskId: name.optional(),
    status: taskStatus.optional(),
    deliveryEventId: z.string().nullable().optional(),
    executorId: z.string().nullable().optional(),
    summary: z.string().nullable().optional(),
  })
  .meta({ id: 'Proof' });

const claimName = z.enum(CLAIMS);
const toProve = z.string().meta({ description: 'What would prove it.' });

const layeredClaim = z.discriminatedUnion('level', [
  z
    .strictObject({ claim: claimName, level: z.literal('proven'), evidence: provenEvidence })
    .meta({ id: 'ProvenClaim', description: 'What the record itself shows.' }),
  z
    .strictObject({
      claim: claimName,
      level: z.literal('reported'),
      evidence: z.strictObject({ effects: z.array(effect) }),
      toProve,
    })
    .meta({ id: 'ReportedClaim', description: 'What an executor said, unverified.' }),
  z.strictObject({ claim: claimName, level: z.literal('not-claimed'), toProve }).meta({ id: 'UnclaimedClaim' }),
]);

export const evidenceAnswer = z
  .strictObject({ taskId: name, claims: z.array(layeredClaim) })
  .meta({ id: 'Evidence', description: 'What can be said of a Task, in layers: no status is ever read as proof.' });

export const liveAnswer = z.strictObject({ status: z.literal('live') }).meta({ id: 'Live' });
export const readyAnswer = z.strictObject({ status: z.literal('ready') }).meta({ id: 'Ready' });

const faults = z
  .array(z.strictObject({ field: z.string(), message: z.string() }))
  .meta({ description: 'What was refused, field by field; values are not repeated.' });

/** Fields of problem documents beside the standard ones. */
const PROBLEM_FIELDS: Partial<Record<ErrorCode, z.ZodRawShape>> = {
  'invalid-request': { errors: faults.optional() },
  'payload-too-large': { errors: faults.optional() },
  'task-terminal': { task: taskAnswer },
};

/** The problem document (RFC 9457) of a code. */
function problem(code: ErrorCode): z.ZodObject {
  return z
    .strictObject({
      type: z.literal(`urn:holdfast:problem:${code}`),
      title: z.literal(ERROR_TITLE[code]),
      status: z.literal(HTTP_STATUS[code]),
      code: z.literal(code),
      detail: z.string().optional(),
      ...PROBLEM_FIELDS[code],
    })
    .meta({ id: `problem-${code}`, description: ERROR_TITLE[code] });
}

/** One for each code, made once: the document names each by its own component. */
export const PROBLEM_ANSWERS = Object.fromEntries(
  (Object.keys(HTTP_STATUS) as ErrorCode[]).map((code) => [code, problem(code)]),
) as Record<ErrorCode, z.ZodObject>;
