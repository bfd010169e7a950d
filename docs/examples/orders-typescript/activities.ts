import { ApplicationFailure } from '@temporalio/activity';

export interface Line {
  sku: string;
  n: number;
}

// ship orders the shipment. Send key to your system as the idempotency key, because Temporal can repeat an activity.
// The error refuses the order, because the flow lists its type in refusals.
export async function ship(key: string, lines: Line[]): Promise<string> {
  if (lines.length === 0) {
    throw ApplicationFailure.nonRetryable('the order has no lines', 'OutOfStock');
  }
  return 'shipment of ' + key;
}

export async function cancel(key: string, shipment: string): Promise<void> {}
