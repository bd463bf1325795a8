import type { VerdictAnswer } from './commands.ts';
import type { Instant } from './instant.ts';
import type { Message, TaskRecord, TaskStatus, TaskView } from './task.ts';

/** The words between the scheduler and the Task's workflow. Stored in histories: never renamed, only added to. */
export const TASK_WORKFLOW_TYPE = 'task';

/** Version of `TaskWorkflowInput`. Inputs of every released version must keep working: Tasks wait a year. */
export const SCHEMA_VERSION = 1;

export const QUERIES = {
  /** The whole Task, as the API shows it. */
  task: 'task',
  /** What a stop check needs of a Task: its status and its ancestors. */
  stopCheck: 'stop-check',
  /** Unread messages after a sequence number. */
  messages: 'messages',
  /** Verdicts of commands, with the Task where asked for. */
  verdict: 'verdict',
} as const;

/**
 * The policy that a Task lives under, snapshot into its input at its start: nothing is read from the environment inside
 * a workflow, and a later change of the configuration does not reach into running Tasks.
 */
export interface TaskPolicy {
  /** Temporal task queue of the activities that publish. */
  deliveryTaskQueue: string;
  publish: PublishPolicy;
  redelivery: {
    /** Published but unclaimed for this long: published again. Doubles with each round. */
    afterSeconds: number;
    maximumSeconds: number;
    /** Rounds of publication in all before the delivery counts as exhausted. */
    rounds: number;
  };
  continueAsNewAfterSignals: number;
}

/** How long a publish may wait for its place beside others of its customer and queue, on top of the attempt's bound. */
export const PUBLISH_PLACE_WAIT_SECONDS = 5;

export interface PublishPolicy {
  initialSeconds: number;
  factor: number;
  maximumSeconds: number;
  attempts: number;
  /** Bound of one attempt. */
  timeoutSeconds: number;
  /** Bound of one round, outages of our own workers included. */
  totalSeconds: number;
}

/** Input of the Task's workflow: at its start the whole Task as accepted, after continue-as-new as it stands. */
export interface TaskWorkflowInput {
  schemaVersion: typeof SCHEMA_VERSION;
  policy: TaskPolicy;
  record: TaskRecord;
}

export interface StopCheckAnswer {
  status: TaskStatus;
  ancestors: string[];
}

export interface MessagesAnswer {
  messages: Message[];
  lastSeq: number;
  readSeq: number;
}

export interface VerdictsAnswer {
  answers: VerdictAnswer[];
  task: TaskView;
}

/** Memo of the Task's workflow: what a describe must tell without a worker. Under 2 kB, and it survives continue-as-new. */
export interface TaskMemo {
  /** Of the request that started it: tells a replay from a reused key. */
  fingerprint: string;
  createdAt: Instant;
}
