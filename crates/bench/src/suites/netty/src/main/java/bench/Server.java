package bench;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.DefaultFileRegion;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.LengthFieldBasedFrameDecoder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;

/** Serves the files below a directory: `Server DIRECTORY`. Prints its address. Content goes out by sendfile. */
public final class Server {
    private interface Processor {
        void answer(ChannelHandlerContext context, Request request, Path file) throws IOException;
    }

    private static final Map<Byte, Processor> PROCESSORS =
            Map.of(Request.FRAME, Server::frame, Request.CHUNKS, Server::chunks);

    public static void main(String[] arguments) throws Exception {
        Path root = Path.of(arguments[0]);
        var group = new MultiThreadIoEventLoopGroup(NioIoHandler.newFactory());
        var pipeline = new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                channel.pipeline().addLast(new LengthFieldBasedFrameDecoder(1 << 16, 0, 4, 0, 4), new Handler(root));
            }
        };
        Channel bound = new ServerBootstrap().group(group).channel(NioServerSocketChannel.class)
                .childHandler(pipeline).bind("127.0.0.1", 0).sync().channel();
        System.out.println("127.0.0.1:" + ((InetSocketAddress) bound.localAddress()).getPort());
        bound.closeFuture().sync();
    }

    private static final class Handler extends SimpleChannelInboundHandler<ByteBuf> {
        private final Path root;

        Handler(Path root) {
            this.root = root;
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, ByteBuf frame) throws IOException {
            Request request = Request.decode(frame);
            PROCESSORS.get(request.type()).answer(context, request, root.resolve(request.path()));
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            System.err.println(cause);
            context.close();
        }
    }

    private static void frame(ChannelHandlerContext context, Request request, Path file) throws IOException {
        FileChannel content = FileChannel.open(file);
        long length = content.size();
        context.write(context.alloc().buffer(8).writeLong(length));
        context.writeAndFlush(new DefaultFileRegion(content, 0, length));
    }

    private static void chunks(ChannelHandlerContext context, Request request, Path file) throws IOException {
        chunk(context, request, FileChannel.open(file), 0);
    }

    /** Writes the chunk at `start`, and once it is written the next one. */
    private static void chunk(ChannelHandlerContext context, Request request, FileChannel content, long start)
            throws IOException {
        int length = (int) Math.min(request.chunk(), content.size() - start);
        byte[] path = request.path().getBytes(StandardCharsets.UTF_8);
        ByteBuf header = context.alloc().buffer().writeInt(11 + path.length + length).writeLong(start)
                .writeBoolean(length == 0).writeShort(path.length).writeBytes(path);
        if (length == 0) {
            content.close();
            context.writeAndFlush(header);
            return;
        }
        context.write(header);
        // A region closes its file once it is released; this file is needed for the next one.
        var region = new DefaultFileRegion(content, start, length) {
            @Override
            protected void deallocate() {}
        };
        context.writeAndFlush(region).addListener((ChannelFutureListener) written -> {
            if (written.isSuccess()) {
                chunk(context, request, content, start + length);
            } else {
                context.fireExceptionCaught(written.cause());
            }
        });
    }
}
