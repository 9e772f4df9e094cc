"""Leases tokens from Python without any Leasehold code.

Finds the API by gRPC reflection, goes through the life of a few leases and
prints one JSON line for each step: what was done, the gRPC code, the reply, and
the tokens that the database has held afterwards. Judges nothing: the test that
runs it does.

Usage: client.py HOST:PORT DATABASE
"""

import json
import sys
import time
import uuid

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

NODE = "foreign"
PACKAGE = "leasehold.v1"
# Bound in seconds for anything that should happen by itself.
BOUND = 15.0
# Longer than any wait that this client means to see through.
LONG_MS = 60_000


class Service:
    """A gRPC service whose methods are called by name with keyword arguments."""

    def __init__(self, channel, pool, name):
        self.channel = channel
        self.service = pool.FindServiceByName(f"{PACKAGE}.{name}")

    def start(self, method, **fields):
        """Starts a call and returns its future."""
        descriptor = self.service.methods_by_name[method]
        request = message_factory.GetMessageClass(descriptor.input_type)(**fields)
        reply = message_factory.GetMessageClass(descriptor.output_type)
        call = self.channel.unary_unary(
            f"/{self.service.full_name}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return call.future(request, timeout=BOUND)

    def call(self, method, **fields):
        """Makes a call and returns its code and its reply as plain data."""
        return outcome(self.start(method, **fields))


def outcome(future):
    """What became of a call: its code and its reply, or the server's message."""
    try:
        reply = future.result()
    except grpc.FutureCancelledError:
        return {"code": "CANCELLED"}
    except grpc.RpcError as error:
        return {"code": error.code().name, "message": error.details()}
    fields = json_format.MessageToDict(
        reply, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return {"code": "OK", **fields}


class Story:
    """Makes the calls in their order and prints what came of each."""

    def __init__(self, address, database):
        channel = grpc.insecure_channel(address)
        reflection = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(reflection)
        self.services = sorted(reflection.get_services())
        self.leases = Service(channel, pool, "LeaseService")
        self.admin = Service(channel, pool, "AdminService")
        self.database = database

    def state(self):
        """The database as the server shows it."""
        reply = self.admin.start("ListDatabases", database=self.database).result()
        return reply.databases[0]

    def print(self, step, **facts):
        print(json.dumps({"step": step, **facts, "held": self.state().held}), flush=True)

    def acquire_later(self, request, tokens, max_wait_ms):
        return self.leases.start(
            "Acquire",
            request_id=request,
            node=NODE,
            database=self.database,
            tokens=tokens,
            max_wait_ms=max_wait_ms,
        )

    def acquire(self, step, request, tokens, max_wait_ms=0):
        reply = outcome(self.acquire_later(request, tokens, max_wait_ms))
        self.print(step, **reply)
        return reply.get("lease_id", "")

    def renew(self, step, lease):
        self.print(step, **self.leases.call("Renew", lease_id=lease, node=NODE))

    def release(self, step, node=NODE, **target):
        self.print(step, **self.leases.call("Release", node=node, **target))

    def until(self, what, condition):
        """Waits until the server shows what the condition asks for."""
        end = time.monotonic() + BOUND
        while not condition(self.state()):
            if time.monotonic() > end:
                sys.exit(f"waited {BOUND} s in vain for {what}")
            time.sleep(0.01)

    def tell(self):
        self.print("discover", services=self.services)
        first, second, third, fourth = (str(uuid.uuid4()) for _ in range(4))

        # A lease, the same request again, and the same id for another request.
        lease = self.acquire("acquire", first, 4)
        self.acquire("acquire again", first, 4)
        self.acquire("acquire again with another count", first, 5)
        self.renew("renew", lease)

        # More than is free: refused at once, or waits and is cancelled meanwhile.
        self.acquire("acquire too many without waiting", str(uuid.uuid4()), 8)
        waiting = self.acquire_later(second, 8, LONG_MS)
        self.until("the request to wait", lambda database: database.waiting > 0)
        waiting.cancel()
        self.until("the request to be gone", lambda database: database.waiting == 0)
        self.print("cancel while waiting", **outcome(waiting))
        other = self.acquire("acquire the rest after the cancellation", third, 6)

        # Everything is leased: a request waits for a release.
        waiting = self.acquire_later(fourth, 4, LONG_MS)
        self.until("the request to wait", lambda database: database.waiting > 0)
        self.release("release another node's", node="somebody else", lease_id=lease)
        self.release("release", lease_id=lease)
        last = outcome(waiting)
        self.print("acquire after waiting", **last)
        self.release("release again", lease_id=lease)
        self.release("release again by the request", request_id=first)
        self.acquire("acquire a released request", first, 4)
        self.release("release by the request", request_id=third)
        self.renew("renew a released lease", other)

        # Nobody renews the last one.
        self.until("the lease to expire", lambda database: database.held == 0)
        self.renew("renew an expired lease", last["lease_id"])
        self.release("release an expired lease", lease_id=last["lease_id"])
        self.release("release a lease that never was", lease_id=str(uuid.uuid4()))


if __name__ == "__main__":
    Story(sys.argv[1], sys.argv[2]).tell()
