"""What one client of metadata_kill_test.py makes: the model of it, the changes, and what the server has.

A client's part of the model maps each of its names to one thing:
  stream {"id", "topics": {name: {"id", "partitions", "groups": {name: id}}}}
  token  {"token": True}
  user   {"user": id, "created", "status", "permissions", "login": {"password", "former", "fresh"}}
`permissions` is their encoding in hex, empty without any. `former` is the password before this one, or
None; `fresh`: set since the last start. A change is [kind, arguments...].
None stands for what nobody told: an id before the answer, the login in what the server lists.

Wire: iggy_binary_protocol 0.11.0. The importer puts tests/support on the path.
"""

import struct

from galgo_client import (
    GET_STREAM,
    GET_STREAMS,
    OP_CREATE_GROUP,
    OP_CREATE_STREAM,
    OP_CREATE_TOPIC,
    OP_DELETE_GROUP,
    OP_DELETE_STREAM,
    OP_DELETE_TOPIC,
    OP_REGISTER,
    Client,
    ServerError,
    identifier,
    option,
    str8,
)

OP_UPDATE_STREAM, OP_CREATE_PARTITIONS, OP_DELETE_PARTITIONS = 129, 136, 137
OP_CREATE_USER, OP_UPDATE_USER, OP_DELETE_USER, OP_CHANGE_PASSWORD, OP_UPDATE_PERMISSIONS = range(141, 146)
OP_CREATE_TOKEN, OP_DELETE_TOKEN = 146, 147
GET_USER, GET_USERS, GET_TOKENS, GET_GROUPS = 31, 32, 41, 601
EVICTED_CREDENTIALS = 9
ACTIVE, INACTIVE = 1, 2

STREAMS_MAX, TOPICS_MAX, GROUPS_MAX, PARTITIONS_MAX, TOKENS_MAX, USERS_MAX = 4, 3, 2, 12, 2, 2


class Broken(Exception):
    """A law is broken."""


# ---- the model -----------------------------------------------------------------------------------


def apply(part, change, answer):
    """The model behind a change; `answer` is what a creation told, or None if it is not known."""
    kind, *rest = change
    if kind == "create_stream":
        part[rest[0]] = {"id": answer, "topics": {}}
    elif kind == "rename_stream":
        part[rest[1]] = part.pop(rest[0])
    elif kind in ("delete_stream", "delete_token", "delete_user"):
        del part[rest[0]]
    elif kind == "create_token":
        part[rest[0]] = {"token": True}
    elif kind == "create_topic":
        part[rest[0]]["topics"][rest[1]] = {"id": answer, "partitions": rest[2], "groups": {}}
    elif kind == "delete_topic":
        del part[rest[0]]["topics"][rest[1]]
    elif kind == "create_partitions":
        part[rest[0]]["topics"][rest[1]]["partitions"] += rest[2]
    elif kind == "delete_partitions":
        part[rest[0]]["topics"][rest[1]]["partitions"] -= rest[2]
    elif kind == "create_group":
        part[rest[0]]["topics"][rest[1]]["groups"][rest[2]] = answer
    elif kind == "delete_group":
        del part[rest[0]]["topics"][rest[1]]["groups"][rest[2]]
    elif kind == "create_user":
        number, created = answer or (None, None)
        name, password, status, permissions = rest
        login = {"password": password, "former": None, "fresh": True}
        part[name] = user_entry(number, created, status, permissions, login)
    elif kind == "update_user":
        name, renamed, status = rest
        user = part.pop(name)
        user["status"] = status or user["status"]
        part[renamed or name] = user
    elif kind == "change_password":
        part[rest[0]]["login"] = {"password": rest[2], "former": rest[1], "fresh": True}
    elif kind == "update_permissions":
        part[rest[0]]["permissions"] = rest[1]
    else:
        raise ValueError(f"no change {kind}")
    return part


def user_entry(number, created, status, permissions, login):
    return {"user": number, "created": created, "status": status, "permissions": permissions, "login": login}


def same(model, found):
    """Equal, where what one of the two does not know fits any."""
    if model is None or found is None:
        return True
    if isinstance(model, dict) and isinstance(found, dict):
        return model.keys() == found.keys() and all(same(model[key], found[key]) for key in model)
    return model == found


def users_of(part):
    return {name: thing for name, thing in part.items() if "user" in thing}


# ---- changes -------------------------------------------------------------------------------------


def draw_change(rng, part, prefix, serial, often):
    """A change that succeeds on this part. `often`: one that sets a password is drawn often; everybody soon has a
    user. The server hashes one password after the other, each slower than dozens of other changes: if all
    clients set them often, all would wait for a hash when the kill comes, and nothing else were in doubt.
    """
    streams = sorted((name,) for name, thing in part.items() if "topics" in thing)
    tokens = sorted((name,) for name, thing in part.items() if "token" in thing)
    users = sorted((name,) for name in users_of(part))
    inside = {(s, t): topic for (s,) in streams for t, topic in sorted(part[s]["topics"].items())}
    groups = [(*where, g) for where, topic in inside.items() for g in sorted(topic["groups"])]

    def topics(fits):
        return [where for where, topic in inside.items() if fits(topic)]

    kinds = [  # kind, weight, what it can be done to
        ("create_stream", 20, [()] if len(streams) < STREAMS_MAX else []),
        ("rename_stream", 10, streams),
        ("delete_stream", 10, streams),
        ("create_topic", 40, [(s,) for (s,) in streams if len(part[s]["topics"]) < TOPICS_MAX]),
        ("delete_topic", 10, list(inside)),
        ("create_partitions", 20, topics(lambda topic: topic["partitions"] < PARTITIONS_MAX)),
        ("delete_partitions", 10, topics(lambda topic: topic["partitions"] > 1)),
        ("create_group", 30, topics(lambda topic: len(topic["groups"]) < GROUPS_MAX)),
        ("delete_group", 20, groups),
        ("create_token", 10, [()] if len(tokens) < TOKENS_MAX else []),
        ("delete_token", 10, tokens),
        ("create_user", 20 if not users else 4 if often else 0.4, [()] if len(users) < USERS_MAX else []),
        ("change_password", 6 if often else 0.4, users),
        ("delete_user", 2 if often else 1, users),
        ("update_user", 10, users),
        ("update_permissions", 10, users),
    ]
    kinds = [entry for entry in kinds if entry[2]]
    kind, _, targets = rng.choices(kinds, [weight for _, weight, _ in kinds])[0]
    target = rng.choice(targets)
    change = [kind, *target]
    if kind == "create_stream":
        change += [f"{prefix}s{serial}"]
    elif kind == "rename_stream":
        change += [f"{prefix}r{serial}"]
    elif kind == "create_topic":
        change += [f"t{serial}", rng.randint(1, 4)]
    elif kind == "create_partitions":
        change += [rng.randint(1, 3)]
    elif kind == "delete_partitions":
        change += [1]
    elif kind == "create_group":
        change += [f"g{serial}"]
    elif kind == "create_token":
        change += [f"{prefix}k{serial}"]
    elif kind == "create_user":
        change += [f"{prefix}u{serial}", draw_password(rng, prefix, serial)]
        change += [rng.choice((ACTIVE, ACTIVE, INACTIVE)), draw_permissions(rng)]
    elif kind == "change_password":
        change += [part[target[0]]["login"]["password"], draw_password(rng, prefix, serial)]
    elif kind == "update_user":
        renamed, other = f"{prefix}v{serial}", ACTIVE + INACTIVE - part[target[0]]["status"]
        change += rng.choice(([renamed, None], [None, other], [renamed, other]))
    elif kind == "update_permissions":
        change += [draw_permissions(rng)]
    return change


def draw_password(rng, prefix, serial):
    """Nobody else's."""
    return f"{prefix}p{serial}".ljust(rng.randint(8, 100), "x")


def draw_permissions(rng):
    """Encoded; none, or global rights and those on up to two streams with up to two topics each."""

    def rights(count):
        return bytes(rng.getrandbits(1) for _ in range(count))

    def listing(entries):
        return b"\0" if not entries else b"\1" + b"\1".join(entries) + b"\0"

    def ids():
        return [struct.pack("<I", number) for number in sorted(rng.sample(range(100), rng.randint(0, 2)))]

    if rng.random() < 0.2:
        return ""
    streams = [number + rights(6) + listing([topic + rights(4) for topic in ids()]) for number in ids()]
    return (rights(10) + listing(streams)).hex()


def permissions_field(permissions):
    data = bytes.fromhex(permissions)
    return b"\1" + struct.pack("<I", len(data)) + data if data else b"\0"


def update_user_body(name, renamed, status):
    body = identifier(name) + (b"\1" + str8(renamed) if renamed else b"\0")
    return body + (bytes([1, status]) if status else b"\0")


def send_change(client, change):
    """Sends it; what the answer tells of what was made, or None."""
    kind, *rest = change
    if kind == "create_stream":
        return struct.unpack_from("<I", client.call(OP_CREATE_STREAM, str8(rest[0])))[0]
    if kind == "create_user":
        name, password, status, permissions = rest
        body = str8(name) + str8(password) + bytes([status]) + permissions_field(permissions)
        told, user = take_user_details(client.call(OP_CREATE_USER, body))
        if (told, user["status"], user["permissions"]) != (name, status, permissions):
            raise ValueError(f"the answer {told}, {user}")
        return user["user"], user["created"]
    if kind == "update_user":
        client.call(OP_UPDATE_USER, update_user_body(*rest))
    elif kind == "delete_user":
        client.call(OP_DELETE_USER, identifier(rest[0]))
    elif kind == "change_password":
        client.call(OP_CHANGE_PASSWORD, identifier(rest[0]) + str8(rest[1]) + str8(rest[2]))
    elif kind == "update_permissions":
        client.call(OP_UPDATE_PERMISSIONS, identifier(rest[0]) + permissions_field(rest[1]))
    elif kind == "create_token":
        client.call(OP_CREATE_TOKEN, str8(rest[0]) + struct.pack("<Q", 0))
    elif kind == "delete_token":
        client.call(OP_DELETE_TOKEN, str8(rest[0]))
    elif kind == "rename_stream":
        client.call(OP_UPDATE_STREAM, identifier(rest[0]) + str8(rest[1]))
    elif kind == "delete_stream":
        client.call(OP_DELETE_STREAM, identifier(rest[0]))
    elif kind == "create_topic":
        body = identifier(rest[0]) + struct.pack("<I", rest[2]) + str8(rest[1])
        for key in ("consumer_offset_durability", "durability"):
            body += option(key, "replicated")
        return struct.unpack_from("<I", client.call(OP_CREATE_TOPIC, body))[0]
    elif kind == "delete_topic":
        client.call(OP_DELETE_TOPIC, topic_path(rest))
    elif kind == "create_partitions":
        client.call(OP_CREATE_PARTITIONS, topic_path(rest) + struct.pack("<I", rest[2]))
    elif kind == "delete_partitions":
        client.call(OP_DELETE_PARTITIONS, topic_path(rest) + struct.pack("<I", rest[2]))
    elif kind == "create_group":
        return struct.unpack_from("<I", client.call(OP_CREATE_GROUP, topic_path(rest) + str8(rest[2])))[0]
    else:
        client.call(OP_DELETE_GROUP, topic_path(rest) + identifier(rest[2]))
    return None


def topic_path(names):
    return identifier(names[0]) + identifier(names[1])


# ---- what the server has -------------------------------------------------------------------------


def take_name(body, at):
    size = body[at]
    return body[at + 1 : at + 1 + size].decode(), at + 1 + size


def skip_block(body, at):
    return at + 4 + struct.unpack_from("<I", body, at)[0]


def take_stream(body, at):
    (number,) = struct.unpack_from("<I", body, at)
    name, at = take_name(body, at + 32)
    return number, name, skip_block(body, at)


def take_user(body, at):
    """Name, entry without permissions, where the next one begins."""
    number, created, status = struct.unpack_from("<IQB", body, at)
    name, at = take_name(body, at + 13)
    return name, user_entry(number, created, status, "", None), skip_block(body, at)


def take_user_details(body):
    name, user, at = take_user(body, 0)
    if body[at] == 1:
        user["permissions"] = body[at + 5 : skip_block(body, at + 1)].hex()
    return name, user


def read_users(client):
    """{name: entry}, where the list, the id and the name must lead to the same user."""
    users, numbers, at, body = {}, set(), 0, client.read(GET_USERS)
    while at < len(body):
        name, listed, at = take_user(body, at)
        number = listed["user"]
        if name in users or number in numbers:
            raise Broken(f"user {name} or id {number} is there twice")
        details = client.read(GET_USER, identifier(name))
        if not details or details != client.read(GET_USER, identifier(number)):
            raise Broken(f"user {name} of the list is another one by name or by id {number}")
        told, user = take_user_details(details)
        if (told, user | {"permissions": ""}) != (name, listed):
            raise Broken(f"user {name} is listed as {listed} and is {told}, {user}")
        users[name] = user
        numbers.add(number)
    return users


def logs_in(address, name, password):
    """The id of who that is, or None: wrong credentials."""
    with Client(address, timeout=60) as client:
        try:
            return struct.unpack_from("<I", client.call(OP_REGISTER, client.login_body(name, password)))[0]
        except ServerError as error:
            if error.reason != EVICTED_CREDENTIALS:
                raise Broken(f"{error} to a login of {name}") from None
            return None


def read_state(client):
    """{name: as in the model} of all streams, tokens and users; broken when a name stands twice."""
    streams, at, body = {}, 0, client.read(GET_STREAMS)
    while at < len(body):
        number, name, at = take_stream(body, at)
        if name in streams:
            raise Broken(f"stream {name} is there twice")
        streams[name] = {"id": number, "topics": {}}
    for name, stream in streams.items():
        body = client.read(GET_STREAM, identifier(name))
        _, _, at = take_stream(body, 0)
        while at < len(body):
            number, _, partitions = struct.unpack_from("<IQI", body, at)
            topic, at = take_name(body, at + 49)
            at = skip_block(body, skip_block(body, at))
            if topic in stream["topics"]:
                raise Broken(f"topic {name}/{topic} is there twice")
            groups, there = {}, 0
            listed = client.read(GET_GROUPS, identifier(name) + identifier(topic))
            while there < len(listed):
                (group_number,) = struct.unpack_from("<I", listed, there)
                group, there = take_name(listed, there + 12)
                if group in groups:
                    raise Broken(f"group {name}/{topic}/{group} is there twice")
                groups[group] = group_number
            stream["topics"][topic] = {"id": number, "partitions": partitions, "groups": groups}
    at, body = 0, client.read(GET_TOKENS)
    while at < len(body):
        token, at = take_name(body, at)
        at += 8  # its expiry
        if token in streams:
            raise Broken(f"token {token} is there twice")
        streams[token] = {"token": True}
    return streams | read_users(client)
