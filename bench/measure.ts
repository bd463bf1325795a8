/** One form at one concurrency in one round: what it took, and what it cost. */
import type { Client } from '@temporalio/client';
import type { Counts } from './call-counter.ts';
import { drive, STEPS, type Step } from './drive.ts';
import type { Form } from './forms/form.ts';
import { historyCountsOf } from './history-counts.ts';
import type { FormName } from './options.ts';
import type { MeasuredProcess } from './processes/measured.ts';
import type { Receiver } from './receiver.ts';
import { percentile, spreadOf, type Spread } from './stats.ts';

export interface Measurement {
  form: FormName;
  concurrency: number;
  round: number;
  tasks: number;
  tasksPerSecond: number;
  latencyMs: Record<Step, { p50: number; p95: number }>;
  /** Of each process, a Task; null where the platform does not tell. */
  cpuMsPerTask: Record<string, number | null>;
  events: Spread;
  workflowTasks: Spread;
  /** Of all Tasks together. */
  calls: Counts;
  repeats: Counts;
}

/** What all forms share. */
export interface Stage {
  client: Client;
  server: MeasuredProcess;
  receiver: Receiver;
}

export async function measure(
  { client, server, receiver }: Stage,
  form: Form,
  { tasks, concurrency, round }: { tasks: number; concurrency: number; round: number },
): Promise<Measurement> {
  const processes: [string, MeasuredProcess][] = Object.entries({ server, ...form.processes });
  const cpu = async (): Promise<(number | null)[]> => Promise.all(processes.map(([, each]) => each.cpuMs()));

  await form.takeCalls();
  const before = await cpu();
  const { taskIds, wallMs, latencies } = await drive(form, receiver, { tasks, concurrency });
  const after = await cpu();
  const { calls, repeats } = await form.takeCalls();

  // Outside of what is timed. It also leaves the server time to end what the last Tasks left it to do.
  const events: number[] = [];
  const workflowTasks: number[] = [];
  for (const taskId of taskIds) {
    const handle = client.workflow.getHandle(form.workflowIdOf(taskId));
    await handle.result();
    const counts = await historyCountsOf(handle);
    events.push(counts.events);
    workflowTasks.push(counts.workflowTasks);
  }
  return {
    form: form.name,
    concurrency,
    round,
    tasks,
    tasksPerSecond: tasks / (wallMs / 1000),
    latencyMs: Object.fromEntries(
      STEPS.map((step) => [step, { p50: percentile(latencies[step], 0.5), p95: percentile(latencies[step], 0.95) }]),
    ) as Measurement['latencyMs'],
    cpuMsPerTask: Object.fromEntries(
      processes.map(([name], index) => {
        const [from, to] = [before[index] ?? null, after[index] ?? null];
        return [name, from === null || to === null ? null : (to - from) / tasks];
      }),
    ),
    events: spreadOf(events),
    workflowTasks: spreadOf(workflowTasks),
    calls,
    repeats,
  };
}
