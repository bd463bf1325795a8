/** CPU time of a process, user and system, in ms since any fixed moment. */
import { readFile } from 'node:fs/promises';

export interface MeasuredProcess {
  /** Null where the platform does not tell. */
  cpuMs(): Promise<number | null>;
}

/** Linux counts in hundredths of a second, whatever its clock. */
const MS_PER_TICK = 10;

/** A process that is not Node's: Temporal's server. */
export function processOf(pid: number): MeasuredProcess {
  return {
    cpuMs: async () => {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
      if (stat === null) return null;
      // The name of the program stands in brackets and may hold anything: the fields are counted behind it.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
    },
  };
}

export const thisProcess: MeasuredProcess = {
  cpuMs: async () => ownCpuMs(),
};

export function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
