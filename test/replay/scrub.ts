/**
 * Takes out of a recorded history what names the machine that recorded it. Nothing of it takes part in a replay, and a
 * history that was scrubbed stays the same when it is scrubbed again.
 */

/** Text fields of any event, by name, and what they become. */
const CONSTANTS: Readonly<Record<string, string>> = {
  // pid@host of clients and workers.
  identity: 'worker',
  // Of the worker's code, or of the machine that built it.
  binaryChecksum: 'worker',
  buildId: 'worker',
  workerInstanceKey: 'worker',
  // Paths of source files.
  stackTrace: '',
};

/** A copy of the history's JSON without traces of the machine. */
export function scrub(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(scrub);
  if (typeof json !== 'object' || json === null) return json;
  // A worker's own queue is named after its process.
  const isSticky = 'kind' in json && json.kind === 'TASK_QUEUE_KIND_STICKY';
  return Object.fromEntries(
    Object.entries(json).map(([key, value]: [string, unknown]) => {
      if (isSticky && key === 'name') return [key, 'sticky'];
      const constant = CONSTANTS[key];
      // Payload metadata and bodies are base64 and have none of these fields.
      return [key, constant !== undefined && typeof value === 'string' ? constant : scrub(value)];
    }),
  );
}

/** All that can be read in a history's JSON: its text, and the contents of its payloads. */
export function readableTextOf(json: unknown): string {
  const texts: string[] = [JSON.stringify(json)];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if ('data' in value && typeof value.data === 'string') {
      texts.push(Buffer.from(value.data, 'base64').toString('utf8'));
    }
    Object.values(value).forEach(walk);
  };
  walk(json);
  return texts.join('\n');
}
