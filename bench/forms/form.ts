/** One way to take a Task through its life. Each call resolves when its caller would have been answered. */
import type { CallCounter } from '../call-counter.ts';
import type { FormName } from '../options.ts';
import type { MeasuredProcess } from '../processes/measured.ts';

export interface Form {
  name: FormName;
  schedule(taskId: string): Promise<void>;
  /** Rejects unless it was accepted. */
  claim(taskId: string, token: string): Promise<void>;
  /** Rejects unless it was accepted. */
  recordResult(taskId: string): Promise<void>;
  workflowIdOf(taskId: string): string;
  /** What works for this form beside the server: the others are idle meanwhile. */
  processes: Record<string, MeasuredProcess>;
  /** Calls to Temporal since the last time that this was asked. */
  takeCalls(): Promise<ReturnType<CallCounter['take']>>;
  close(): Promise<void>;
}

/** Every Task of the bench is of one customer. */
export const CUSTOMER = 'local';
