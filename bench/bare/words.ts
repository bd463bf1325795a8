/** The words between the bare form's client and its workflow. */

export const BARE_WORKFLOW_TYPE = 'bareTask';
export const VERDICT_QUERY = 'verdict';

export function deliveryTaskQueueOf(taskQueue: string): string {
  return `${taskQueue}-delivery`;
}

export interface BareInput {
  taskId: string;
  deliveryTaskQueue: string;
}

export interface ClaimSignal {
  key: string;
  token: string;
}

export interface ResultSignal {
  key: string;
  success: boolean;
}

export interface BareRecord {
  status: 'scheduled' | 'queued' | 'running' | 'succeeded' | 'failed';
  /** By key. */
  verdicts: Record<string, 'accepted' | 'refused'>;
}
