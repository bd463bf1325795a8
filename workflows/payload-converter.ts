/**
 * What the workflow decodes with. Temporal's own converter throws on a payload that it cannot read, and what is thrown
 * while a signal is decoded fails the workflow task for ever. Anybody with the Web UI can sign by hand (text that is not
 * JSON, an unknown encoding): such a payload is read as null here, which no command is.
 */
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common';

export const payloadConverter: PayloadConverter = {
  toPayload(value) {
    return defaultPayloadConverter.toPayload(value);
  },
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- so the interface has it
  fromPayload<Value>(payload: Payload): Value {
    try {
      return defaultPayloadConverter.fromPayload(payload);
    } catch {
      return null as Value;
    }
  },
};
