package bench;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.AdaptiveRecvByteBufAllocator;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.LengthFieldBasedFrameDecoder;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Fetches a file: `Client PORT (frame | chunks) CHUNK PATH DIRECTORY CLIENTS`. Each client has a connection and writes a
 * file of its own, called by its number. Prints the seconds from the first connection to the last byte written, without
 * the start of Java, and the bytes.
 */
public final class Client {
    /** The most that one read from the socket takes, as in the published design. */
    private static final int PIECE = 8 << 20;

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        byte type = arguments[1].equals("frame") ? Request.FRAME : Request.CHUNKS;
        var request = new Request(type, size(arguments[2]), arguments[3]);
        int clients = Integer.parseInt(arguments[5]);
        var complete = new CountDownLatch(clients);
        var bytes = new AtomicLong();
        var group = new MultiThreadIoEventLoopGroup(NioIoHandler.newFactory());
        var bootstrap = new Bootstrap().group(group).channel(NioSocketChannel.class).option(
                ChannelOption.RECVBUF_ALLOCATOR, new AdaptiveRecvByteBufAllocator(1 << 10, 1 << 16, PIECE));
        long began = System.nanoTime();
        for (int client = 0; client < clients; client++) {
            Path place = Path.of(arguments[4], String.valueOf(client));
            bootstrap.clone().handler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel channel) {
                    int lengthBytes = type == Request.FRAME ? 8 : 4;
                    channel.pipeline().addLast(
                            new LengthFieldBasedFrameDecoder(Integer.MAX_VALUE, 0, lengthBytes, 0, lengthBytes),
                            new Receiver(request, place, complete, bytes));
                }
            }).connect("127.0.0.1", port);
        }
        complete.await();
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.println("{\"seconds\": " + seconds + ", \"bytes\": " + bytes + "}");
        Runtime.getRuntime().halt(0);
    }

    /** The bytes of `64KiB` or `5MB`. */
    private static int size(String text) {
        var units = Map.of("B", 1, "KB", 1000, "MB", 1_000_000, "KiB", 1 << 10, "MiB", 1 << 20);
        String unit = text.replaceFirst("^[0-9]+", "");
        return Integer.parseInt(text.substring(0, text.length() - unit.length())) * units.get(unit);
    }

    private static final class Receiver extends SimpleChannelInboundHandler<ByteBuf> {
        private final Request request;
        private final Path place;
        private final CountDownLatch complete;
        private final AtomicLong bytes;
        private FileChannel file;

        Receiver(Request request, Path place, CountDownLatch complete, AtomicLong bytes) {
            this.request = request;
            this.place = place;
            this.complete = complete;
            this.bytes = bytes;
        }

        @Override
        public void channelActive(ChannelHandlerContext context) throws IOException {
            file = FileChannel.open(place, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            context.writeAndFlush(request.encode(context.alloc()));
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, ByteBuf frame) throws IOException {
            long start = 0;
            boolean endOfFile = true;
            if (request.type() == Request.CHUNKS) {
                start = frame.readLong();
                endOfFile = frame.readBoolean();
                frame.skipBytes(frame.readShort());
            }
            bytes.addAndGet(frame.readableBytes());
            while (frame.isReadable()) {
                start += frame.readBytes(file, start, frame.readableBytes());
            }
            if (endOfFile) {
                file.close();
                complete.countDown();
            }
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            if (file == null || file.isOpen()) {
                fail("the connection ended early");
            }
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            fail(cause.toString());
        }

        private static void fail(String what) {
            System.err.println(what);
            Runtime.getRuntime().halt(1);
        }
    }
}
