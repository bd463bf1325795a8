/** Measurements of one run as ratios to the bare form's of the same round, so that the machine falls out of them. */
import { plus, type Counts } from './call-counter.ts';
import { STEPS } from './drive.ts';
import type { Measurement } from './measure.ts';
import type { FormName } from './options.ts';
import { groupedBy, spreadOf, sumOf, type Spread } from './stats.ts';

/** What is compared, each a number of a measurement; NaN where the platform did not tell. */
export const METRICS: { name: string; unit: string; of: (measurement: Measurement) => number }[] = [
  { name: 'Tasks/s', unit: '1/s', of: ({ tasksPerSecond }) => tasksPerSecond },
  ...STEPS.flatMap((step) =>
    (['p50', 'p95'] as const).map((share) => ({
      name: `${step} ${share}`,
      unit: 'ms',
      of: ({ latencyMs }: Measurement) => latencyMs[step][share],
    })),
  ),
  { name: 'CPU, all processes', unit: 'ms', of: ({ cpuMsPerTask }) => cpuOf(cpuMsPerTask, Object.keys(cpuMsPerTask)) },
  { name: 'CPU, server', unit: 'ms', of: ({ cpuMsPerTask }) => cpuOf(cpuMsPerTask, ['server']) },
  { name: 'CPU, worker', unit: 'ms', of: ({ cpuMsPerTask }) => cpuOf(cpuMsPerTask, ['worker']) },
  { name: 'CPU, caller and facade', unit: 'ms', of: ({ cpuMsPerTask }) => cpuOf(cpuMsPerTask, ['caller', 'facade']) },
];

function cpuOf(cpuMs: Measurement['cpuMsPerTask'], names: string[]): number {
  return sumOf(names.filter((name) => name in cpuMs).map((name) => cpuMs[name] ?? NaN));
}

export interface Compared {
  form: FormName;
  concurrency: number;
  /** By name of metric, over the rounds. */
  ratios: Record<string, Spread>;
  absolute: Record<string, Spread>;
  /** A Task; the mean over all rounds, the extremes of any one Task. */
  events: Omit<Spread, 'median'>;
  workflowTasks: Omit<Spread, 'median'>;
  /** A Task, the mean over all rounds. */
  calls: Counts;
  repeats: Counts;
}

/** One entry for each form and concurrency, in the order in which they are first met. */
export function compare(measurements: readonly Measurement[]): Compared[] {
  const groups = groupedBy(measurements, ({ form, concurrency }) => `${concurrency} ${form}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const { form, concurrency } = first;
    const bareOf = (round: number): Measurement | undefined =>
      measurements.find((each) => each.form === 'bare' && each.concurrency === concurrency && each.round === round);
    const overRounds = (value: (measurement: Measurement, bare: Measurement | undefined) => number): Spread =>
      spreadOf(group.map((each) => value(each, bareOf(each.round))));
    const byMetric = (value: (of: (typeof METRICS)[number]['of']) => Spread): Record<string, Spread> =>
      Object.fromEntries(METRICS.map(({ name, of }) => [name, value(of)]));
    return {
      form,
      concurrency,
      ratios: byMetric((of) => overRounds((each, bare) => of(each) / (bare === undefined ? NaN : of(bare)))),
      absolute: byMetric((of) => overRounds(of)),
      events: merged(group.map(({ events }) => events)),
      workflowTasks: merged(group.map(({ workflowTasks }) => workflowTasks)),
      calls: perTask(group, ({ calls }) => calls),
      repeats: perTask(group, ({ repeats }) => repeats),
    };
  });
}

/** Rounds have equally many Tasks. */
function merged(spreads: readonly Spread[]): Omit<Spread, 'median'> {
  return {
    mean: sumOf(spreads.map(({ mean }) => mean)) / spreads.length,
    min: Math.min(...spreads.map(({ min }) => min)),
    max: Math.max(...spreads.map(({ max }) => max)),
  };
}

function perTask(group: readonly Measurement[], countsOf: (measurement: Measurement) => Counts): Counts {
  const tasks = sumOf(group.map((each) => each.tasks));
  const total = group.map(countsOf).reduce(plus, {});
  return Object.fromEntries(Object.entries(total).map(([name, count]) => [name, count / tasks]));
}
