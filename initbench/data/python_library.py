"""The source of Python's standard library: real text that exists on every machine."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from initbench.data.content import content_hash
from initbench.data.dataset import Splits
from initbench.data.text import BYTES, byte_tokens, check_blocks, join, pack, read_text
from initbench.inputs import Inputs
from initbench.registry import Description, register_dataset

# Files that Python 3.11 to 3.14 all have, without tests and tables: some 6 MB. Their splits were drawn at random once.
_TRAIN = """
_collections_abc.py _markupbase.py _pyio.py _threading_local.py _weakrefset.py argparse.py ast.py asyncio/base_events.py
asyncio/base_subprocess.py asyncio/events.py asyncio/futures.py asyncio/locks.py asyncio/proactor_events.py
asyncio/protocols.py asyncio/selector_events.py asyncio/sslproto.py asyncio/staggered.py asyncio/streams.py
asyncio/subprocess.py asyncio/taskgroups.py asyncio/tasks.py asyncio/transports.py asyncio/unix_events.py
asyncio/windows_utils.py base64.py bdb.py bz2.py cProfile.py cmd.py code.py codeop.py collections/__init__.py
compileall.py concurrent/futures/_base.py concurrent/futures/process.py concurrent/futures/thread.py configparser.py
copyreg.py csv.py dataclasses.py datetime.py difflib.py dis.py doctest.py email/_encoded_words.py
email/_header_value_parser.py email/_policybase.py email/contentmanager.py email/feedparser.py email/generator.py
email/header.py email/headerregistry.py email/message.py email/parser.py email/policy.py email/quoprimime.py
email/utils.py enum.py filecmp.py fileinput.py fnmatch.py ftplib.py functools.py getopt.py getpass.py gettext.py gzip.py
hashlib.py heapq.py hmac.py http/__init__.py http/client.py http/cookiejar.py http/cookies.py http/server.py inspect.py
ipaddress.py json/decoder.py linecache.py logging/__init__.py logging/handlers.py mailbox.py mimetypes.py
multiprocessing/context.py multiprocessing/forkserver.py multiprocessing/managers.py multiprocessing/pool.py
multiprocessing/process.py multiprocessing/reduction.py multiprocessing/resource_sharer.py
multiprocessing/resource_tracker.py multiprocessing/shared_memory.py multiprocessing/sharedctypes.py
multiprocessing/spawn.py multiprocessing/synchronize.py multiprocessing/util.py ntpath.py numbers.py operator.py
optparse.py os.py pickle.py pickletools.py pkgutil.py platform.py plistlib.py poplib.py pprint.py pstats.py pty.py
py_compile.py pyclbr.py pydoc.py queue.py quopri.py re/__init__.py re/_casefix.py re/_compiler.py re/_constants.py
re/_parser.py reprlib.py rlcompleter.py runpy.py sched.py selectors.py shelve.py shlex.py shutil.py socket.py
socketserver.py stat.py statistics.py subprocess.py symtable.py tabnanny.py tarfile.py textwrap.py threading.py
timeit.py tokenize.py tomllib/_parser.py trace.py tracemalloc.py types.py typing.py unittest/loader.py unittest/main.py
unittest/mock.py unittest/suite.py unittest/util.py urllib/parse.py urllib/request.py urllib/robotparser.py uuid.py
warnings.py wave.py weakref.py webbrowser.py wsgiref/handlers.py wsgiref/headers.py wsgiref/simple_server.py
wsgiref/util.py wsgiref/validate.py xml/dom/minidom.py xml/dom/pulldom.py xml/dom/xmlbuilder.py
xml/etree/ElementInclude.py xml/etree/ElementPath.py xml/etree/ElementTree.py xml/sax/expatreader.py xml/sax/handler.py
xml/sax/saxutils.py xml/sax/xmlreader.py xmlrpc/client.py zipapp.py zoneinfo/_tzpath.py
"""
_VALIDATION = """
asyncio/queues.py contextlib.py copy.py email/_parseaddr.py fractions.py json/__init__.py modulefinder.py
multiprocessing/queues.py netrc.py smtplib.py tempfile.py unittest/runner.py xml/dom/expatbuilder.py xmlrpc/server.py
"""
_TEST = """
__future__.py _py_abc.py _strptime.py abc.py asyncio/runners.py asyncio/timeouts.py asyncio/windows_events.py
calendar.py codecs.py email/charset.py glob.py graphlib.py html/parser.py imaplib.py json/encoder.py logging/config.py
multiprocessing/connection.py multiprocessing/heap.py pdb.py posixpath.py profile.py random.py traceback.py
unittest/async_case.py unittest/case.py unittest/result.py zoneinfo/_common.py
"""
FILES = tuple(tuple(text.split()) for text in (_TRAIN, _VALIDATION, _TEST))
"""The files of the training, validation and test split, each sorted by name."""


def library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _describe(*, context: int, **sizes: int | None) -> Description:
    check_blocks(context, **sizes)
    content = content_hash(
        library(),
        [name for names in FILES for name in names],
        "python_library needs the source of the whole standard library, as Python 3.11 to 3.14 install it",
    )
    return Description(Inputs((context,), BYTES), BYTES, content)


@register_dataset("python_library", task="language_modelling", describe=_describe)
def python_library(
    context: int = 256,
    train_size: int | None = None,
    *,
    validation_size: int | None = None,
    test_size: int | None = None,
) -> Splits:
    """The source of the running Python's standard library, 6 MB, as blocks of bytes; no download.

    A fixed list of files that Python 3.11 to 3.14 have: about 85 % of the bytes for training, 5 % for validation and 10
    % for test. The files of a split are joined in the order of their names, separated by the byte 0. The text, and
    therefore the dataset, differs between releases of Python.

    Args:
        context: tokens per block; a token is a byte.
        train_size: number of training blocks, chosen at random; null for all.
        validation_size: likewise for validation; 0 for none.
        test_size: likewise for test.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: a file is missing or unreadable, or a split is shorter than a block.
    """
    sizes = {"train_size": train_size, "validation_size": validation_size, "test_size": test_size}
    folder = library()
    train, validation, test = (
        byte_tokens(join(read_text("python_library", folder / name) for name in names)) for names in FILES
    )
    return pack("python_library", (train, validation, test), context=context, sizes=sizes)
