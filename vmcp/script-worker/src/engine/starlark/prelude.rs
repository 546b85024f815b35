//! Functions of Starlark in Python, which runs before the script.

/// Defines `fail`, the types by Starlark's names, `%` of texts, and `parallel` without its meaning.
pub(in crate::engine) const PRELUDE: &str = r#"
def fail(*args, msg=None, attr=None, sep=' '):
    texts = [str(arg) for arg in args]
    if msg is not None:
        texts.append(str(msg))
    raise RuntimeError('fail: ' + sep.join(texts))

def __one_by_one(calls):
    return [call() for call in calls]

def __type(value):
    if value is None:
        return 'NoneType'
    if isinstance(value, bool):
        return 'bool'
    if isinstance(value, int):
        return 'int'
    if isinstance(value, float):
        return 'float'
    if isinstance(value, str):
        return 'string'
    if isinstance(value, bytes):
        return 'bytes'
    if isinstance(value, list):
        return 'list'
    if isinstance(value, dict):
        return 'dict'
    if isinstance(value, tuple):
        return 'tuple'
    if isinstance(value, set):
        return 'set'
    return 'function'

def __mod(left, right):
    if not isinstance(left, str):
        return left % right
    values = list(right) if isinstance(right, tuple) else [right]
    out = []
    used = 0
    named = False
    rest = left
    while True:
        at = rest.find('%')
        if at < 0:
            out.append(rest)
            break
        out.append(rest[:at])
        rest = rest[at + 1:]
        if rest[:1] == '%':
            out.append('%')
            rest = rest[1:]
            continue
        if rest[:1] == '(':
            end = rest.find(')')
            if end < 0:
                raise ValueError('incomplete format key in ' + repr(left))
            value = right[rest[1:end]]
            rest = rest[end + 1:]
            named = True
        elif used < len(values):
            value = values[used]
            used += 1
        else:
            raise ValueError('not enough arguments for format string ' + repr(left))
        kind = rest[:1]
        rest = rest[1:]
        if kind == 's':
            out.append(str(value))
        elif kind == 'r':
            out.append(repr(value))
        elif kind == 'd' or kind == 'i':
            out.append(str(int(value)))
        elif kind == 'o':
            out.append(f'{value:o}')
        elif kind == 'x':
            out.append(f'{value:x}')
        elif kind == 'X':
            out.append(f'{value:X}')
        elif kind == 'e':
            out.append(f'{value:e}')
        elif kind == 'f':
            out.append(f'{value:f}')
        elif kind == 'g':
            out.append(f'{value:g}')
        elif kind == 'c':
            out.append(value if isinstance(value, str) else chr(value))
        else:
            raise ValueError('unknown conversion %' + kind + '; write an f-string, such as f"{value:.2f}"')
    if used < len(values) and not named:
        raise ValueError('too many arguments for format string ' + repr(left))
    return ''.join(out)
"#;
