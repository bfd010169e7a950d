// The workflows of docs/flows.md, "Your own workflow", in TypeScript. They import nothing of pawl.
import { proxyActivities } from '@temporalio/workflow';
import type * as activities from './activities';

const { ship, cancel } = proxyActivities<typeof activities>({ startToCloseTimeout: '1 minute' });

// Event is the argument of a workflow. input is the value of the step's expression.
export interface Event<Input> {
  event_id: string;
  receipt_id: string;
  mode: 'live' | 'test';
  source: string;
  type: string;
  key: string;
  account?: string;
  input: Input;
}

// OrderPaid ships a paid order. pawl starts it once for each key of the step.
export async function OrderPaid(event: Event<{ lines: activities.Line[] }>): Promise<{ shipment: string }> {
  return { shipment: await ship(event.key, event.input.lines) };
}

// OrderCancelled cancels a shipment, because pawl undoes the step. The input is the ID of the shipment.
export async function OrderCancelled(event: Event<string>): Promise<void> {
  await cancel(event.key, event.input);
}
